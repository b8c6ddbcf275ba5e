//! What readers of streams get of what came over the socket. Their feeds have let nothing else through.

use super::GONE;
use crate::remote::codec::{End, Response};
use scalebricks_control::engine::{EngineError, Entry, ReadError, Record};
use std::sync::Arc;

/// An item of a stream.
pub(super) trait Told: Sized {
    /// What a response says; `None`: the stream has ended.
    fn told(response: Response) -> Option<Self>;
}

impl Told for Result<Entry, ReadError> {
    fn told(response: Response) -> Option<Self> {
        Some(match response {
            Response::Entry { position, batch } => Ok(Entry { position, batch }),
            Response::End { end: End::Read(error) } => Err(error),
            _ => Err(ReadError::Unavailable(GONE.to_owned())),
        })
    }
}

impl Told for Result<Record, EngineError> {
    fn told(response: Response) -> Option<Self> {
        Some(match response {
            Response::Record { record } => Ok(record),
            Response::End { end: End::Engine(error) } => Err(error),
            _ => Err(EngineError::Unavailable(GONE.to_owned())),
        })
    }
}

impl Told for Arc<[u8]> {
    fn told(response: Response) -> Option<Self> {
        match response {
            Response::Message { bytes } => Some(bytes),
            _ => None,
        }
    }
}
