//! What the engine's streams say, as responses.

use crate::remote::codec::{End, Response};
use futures_util::{StreamExt, stream};
use scalebricks_control::engine::{BoxStream, Engine, EngineError, Entry, Record, Revision};
use scalebricks_types::{PartitionId, Position};
use std::future::poll_fn;
use std::task::Poll;

/// A stream; nothing comes after a [`Response::End`].
pub(super) type Source = BoxStream<Response>;

/// Records named by one [`Response::Present`].
const PRESENT: usize = 256;

/// All entries of a log.
pub(super) fn entries(engine: &dyn Engine, partition: PartitionId, from: Position) -> Source {
    Box::pin(engine.watch(partition, from).map(|entry| match entry {
        Ok(Entry { position, batch }) => Response::Entry { position, batch },
        Err(error) => Response::End { end: End::Read(error) },
    }))
}

/// The messages of a topic.
pub(super) fn messages(messages: BoxStream<std::sync::Arc<[u8]>>) -> Source {
    Box::pin(messages.map(|bytes| Response::Message { bytes }))
}

/// All records below a prefix; for a reader that knows all up to a revision, what it needs to learn of the rest.
pub(super) fn records(engine: &dyn Engine, prefix: &str, after: Option<Revision>) -> Source {
    let records = engine.watch_records(prefix);
    match after {
        None => Box::pin(records.map(response)),
        Some(after) => Box::pin(stream::once(resume(records, after)).flatten()),
    }
}

fn response(record: Result<Record, EngineError>) -> Response {
    match record {
        Ok(record) => Response::Record { record },
        Err(error) => Response::End { end: End::Engine(error) },
    }
}

/// Names all there is, so that the reader finds out what was deleted meanwhile; then goes on with what is newer.
///
/// What there is, is what the engine has ready at once.
async fn resume(mut records: BoxStream<Result<Record, EngineError>>, after: Revision) -> Source {
    let (mut present, mut newer, mut up_to) = (Vec::new(), Vec::new(), after);
    while let Poll::Ready(Some(record)) =
        poll_fn(|context| Poll::Ready(records.poll_next_unpin(context))).await
    {
        if let Ok(record) = &record {
            present.push((record.key.clone(), record.revision));
            up_to = up_to.max(record.revision);
        }
        if record.as_ref().map_or(true, |record| record.revision > after) {
            newer.push(response(record));
        }
    }
    let mut told: Vec<Response> = Vec::new();
    let mut present = present.into_iter().peekable();
    while present.peek().is_some() {
        told.push(Response::Present { records: present.by_ref().take(PRESENT).collect() });
    }
    told.push(Response::Resumed { up_to });
    Box::pin(stream::iter(told).chain(stream::iter(newer)).chain(records.map(response)))
}
