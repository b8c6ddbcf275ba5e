//! Messages that may be lost: plain NATS messages.

use super::connection::Connection;
use super::jetstream_core::JetStreamCore;
use crate::keys::{check_message, check_topic};
use crate::mailbox::{Mailbox, Subscription};
use futures_core::Stream;
use futures_util::StreamExt;
use scalebricks_control::engine::{BoxStream, EngineError};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

/// A subscription; dropping it ends its task.
struct Reader {
    messages: Subscription,
    task: AbortHandle,
}

impl Stream for Reader {
    type Item = Arc<[u8]>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.messages).poll_next(context)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Closes the mailbox when the task ends.
struct Close(Arc<Mailbox>);

impl Drop for Close {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl JetStreamCore {
    /// Sends a message now, or fails.
    pub(super) async fn publish(&self, topic: &str, message: Arc<[u8]>) -> Result<(), EngineError> {
        check_message(topic, &message)?;
        let unavailable = |why: &str| EngineError::Unavailable(why.to_owned());
        if !self.connection.is_connected() {
            return Err(unavailable("no connection to the servers"));
        }
        let permit = self.connection.try_reserve(message.len());
        let permit = permit.ok_or_else(|| unavailable("too many bytes wait for the servers"))?;
        let sent =
            self.connection.client.publish(self.names.topic(topic), Connection::body(&message, &permit));
        match timeout_at(self.deadline(), sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unavailable(&error.to_string())),
            Err(_) => Err(unavailable("the connection does not keep up")),
        }
    }

    pub(super) async fn subscribe(&self, topic: &str) -> Result<BoxStream<Arc<[u8]>>, EngineError> {
        check_topic(topic)?;
        let subscribe =
            timeout_at(self.deadline(), self.connection.client.subscribe(self.names.topic(topic)));
        let mut subscriber = match subscribe.await {
            Ok(Ok(subscriber)) => subscriber,
            Ok(Err(error)) => return Err(EngineError::Unavailable(error.to_string())),
            Err(_) => return Err(EngineError::Unavailable("the connection does not keep up".to_owned())),
        };
        let mailbox = Arc::new(Mailbox::default());
        let close = Close(Arc::clone(&mailbox));
        let task = tokio::spawn(async move {
            while let Some(message) = subscriber.next().await {
                close.0.put(Arc::from(&message.payload[..]));
            }
        });
        Ok(Box::pin(Reader { messages: Subscription::new(mailbox), task: task.abort_handle() }))
    }
}
