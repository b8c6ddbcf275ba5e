//! Where a stream is, so that it goes on there over the next connection.

use super::records::Records;
use crate::remote::codec::{End, Request, Response};
use scalebricks_control::engine::{EngineError, ReadError};
use scalebricks_types::{PartitionId, Position};

/// What a stream is of, and how far it is.
#[derive(Debug)]
pub(super) enum Feed {
    /// A log, up to before this position.
    Entries { partition: PartitionId, next: u64 },
    /// Records.
    Records(Records),
    /// A topic.
    Messages { topic: String },
}

impl Feed {
    /// What begins it, or lets it go on.
    pub(super) fn request(&mut self, credit: u32) -> Request {
        match self {
            Self::Entries { partition, next } => {
                Request::Watch { partition: *partition, from: Position(*next), credit }
            }
            Self::Records(records) => {
                let (prefix, after) = records.begin();
                Request::WatchRecords { prefix, after, credit }
            }
            Self::Messages { topic } => Request::Subscribe { topic: topic.clone(), credit },
        }
    }

    /// Takes in what the server sent; returns what the reader gets of it. `None`: the server sent what does not belong here.
    pub(super) fn take(&mut self, response: Response) -> Option<Vec<Response>> {
        match (self, response) {
            (Self::Entries { partition, next }, Response::Entry { position, .. }) if position.0 != *next => {
                let what = format!("entry {} comes next", position.0);
                let error = ReadError::Damaged { partition: *partition, position: Position(*next), what };
                Some(vec![Response::End { end: End::Read(error) }])
            }
            (Self::Entries { next, .. }, entry @ Response::Entry { .. }) => {
                *next += 1;
                Some(vec![entry])
            }
            (Self::Records(records), Response::Record { record }) => Some(told(records.record(record))),
            (Self::Records(records), Response::Present { records: present }) => {
                let went_back = |key| {
                    let what =
                        format!("record {key} is at another revision than it was: the engine lost changes");
                    Response::End { end: End::Engine(EngineError::Damaged(what)) }
                };
                Some(records.present(present).err().map(went_back).into_iter().collect())
            }
            (Self::Records(records), Response::Resumed { up_to }) => Some(told(records.resumed(up_to))),
            (Self::Messages { .. }, message @ Response::Message { .. })
            | (_, message @ Response::End { .. }) => Some(vec![message]),
            _ => None,
        }
    }
}

fn told(records: Vec<scalebricks_control::engine::Record>) -> Vec<Response> {
    records.into_iter().map(|record| Response::Record { record }).collect()
}
