//! Messages that may be lost, passed on within the process.

use crate::mailbox::{Mailbox, Subscription};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Subscribers by topic.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<HashMap<String, Vec<Weak<Mailbox>>>>);

impl Topics {
    /// Passes a message to all current subscribers.
    pub(super) fn publish(&self, topic: &str, message: &Arc<[u8]>) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = topics.get_mut(topic) else { return };
        list.retain(|mailbox| mailbox.upgrade().map(|mailbox| mailbox.put(Arc::clone(message))).is_some());
        if list.is_empty() {
            topics.remove(topic);
        }
    }

    /// Subscribes to messages from now on.
    pub(super) fn subscribe(&self, topic: &str) -> Subscription {
        let mailbox = Arc::new(Mailbox::default());
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = topics.entry(topic.to_owned()).or_default();
        list.retain(|mailbox| mailbox.strong_count() > 0);
        list.push(Arc::downgrade(&mailbox));
        Subscription::new(mailbox)
    }

    /// Closes all subscriptions.
    pub(super) fn close(&self) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for mailbox in topics.drain().flat_map(|(_, list)| list).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::LIMIT;
    use futures_util::{FutureExt, StreamExt};

    #[test]
    fn a_slow_reader_loses_the_oldest() {
        let topics = Topics::default();
        let mut reader = topics.subscribe("a");
        for n in 0..LIMIT + 10 {
            topics.publish("a", &Arc::from(n.to_le_bytes()));
        }
        let first = reader.next().now_or_never().flatten().unwrap();
        assert_eq!(*first, 10usize.to_le_bytes());
        let large: Arc<[u8]> = Arc::from(vec![0; 1 << 20]);
        (0..9).for_each(|_| topics.publish("a", &large));
        topics.close();
        let rest: Vec<_> = reader.collect().now_or_never().unwrap();
        assert_eq!(rest.len(), 4);
    }
}
