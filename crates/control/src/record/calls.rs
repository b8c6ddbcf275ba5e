//! Requests of one process, as the log of a partition names them.

use super::Change;
use crate::codec::checked;
use crate::engine::WriterId;
use borsh::{BorshDeserialize, BorshSerialize};
use std::io::{self, Read};

/// Most calls of one process to one partition without a verdict: a call's number is less than this above the lowest number that
/// the process still waits for.
pub const WINDOW: u64 = 1024;

/// Names a request for all time: a process numbers its requests to a partition, rising from 1. A request that is repeated keeps
/// its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct CallId {
    /// The process that asks, in one of its lives.
    pub by: WriterId,
    /// Which of its requests to this partition it is.
    pub number: u64,
}

/// Changes that one request asks for. They are executed together, or void together for lack of room.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Call {
    /// The request.
    pub id: CallId,
    /// The lowest number whose verdict the process still waits for: verdicts below may be forgotten. At most the call's own
    /// number, and less than [`WINDOW`] below it.
    pub oldest: u64,
    /// The changes, made one after the other.
    pub changes: Vec<Change>,
}

impl BorshDeserialize for Call {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(id, oldest, changes): (CallId, u64, _)| {
            let is_in_window =
                oldest > 0 && id.number.checked_sub(oldest).is_some_and(|below| below < WINDOW);
            if is_in_window && id.number < 1 << 63 {
                Ok(Self { id, oldest, changes })
            } else {
                Err("no call has this number")
            }
        })
    }
}
