//! Requests of one process, as the log of a partition names them.

use super::Change;
use crate::engine::WriterId;

/// Requests of one process to one partition that may be under way: a request's number is less than this above the oldest number
/// that its process still waits for.
pub const WINDOW: u64 = 1024;

/// Names a request for all time: a process numbers its requests to a partition, rising from 1. A request that is repeated keeps
/// its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// The process that asks, in one of its lives.
    pub by: WriterId,
    /// Which of its requests to this partition it is.
    pub number: u64,
}

/// Changes that one request asks for. They are executed together, or void together for lack of room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub id: CallId,
    /// The lowest number whose verdict the process still waits for: verdicts below may be forgotten. At most the call's own
    /// number, and less than [`WINDOW`] below it.
    pub oldest: u64,
    /// The changes, made one after the other.
    pub changes: Vec<Change>,
}
