//! Guarantees for messages that may be lost.

use super::Lab;
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{Engine, EngineError, MAX_MESSAGE_BYTES};
use std::sync::Arc;

fn message(n: u64) -> Arc<[u8]> {
    Arc::from(n.to_le_bytes())
}

/// Each subscriber gets messages published from then on, at most once and in order. Some may be lost, so this sends
/// until some arrive.
pub async fn subscribers_get_messages_of_their_topic(lab: &impl Lab) {
    let engine = lab.open().await;
    engine.publish("a", message(0)).await.unwrap();
    let mut readers = [engine.subscribe("a").await.unwrap(), engine.subscribe("a").await.unwrap()];
    let mut other = engine.subscribe("a.b").await.unwrap();
    engine.publish("c", message(1)).await.unwrap();
    let mut sent = 1;
    for reader in &mut readers {
        let (mut last, mut seen) = (1, 0);
        while seen < 3 {
            sent += 1;
            engine.publish("a", message(sent)).await.unwrap();
            while let Some(Some(got)) = reader.next().now_or_never() {
                let got = u64::from_le_bytes((*got).try_into().unwrap());
                assert!(got > last, "{got} after {last}: from before, of another topic, or again");
                (last, seen) = (got, seen + 1);
            }
        }
    }
    assert!(other.next().now_or_never().is_none());
}

/// Topics are named like keys; the largest message is accepted, a larger one refused.
pub async fn topics_and_messages_have_limits(lab: &impl Lab) {
    let engine = lab.open().await;
    for topic in ["", ".", "A", "a b", "a.*", "a.>", "a."] {
        assert!(matches!(engine.publish(topic, message(1)).await, Err(EngineError::Refused(_))), "{topic}");
        assert!(matches!(engine.subscribe(topic).await, Err(EngineError::Refused(_))), "{topic}");
    }
    let large = |len: usize| Arc::<[u8]>::from(vec![0; len]);
    assert!(matches!(engine.publish("a", large(MAX_MESSAGE_BYTES + 1)).await, Err(EngineError::Refused(_))));
    assert_eq!(engine.publish("a", large(MAX_MESSAGE_BYTES)).await, Ok(()));
}
