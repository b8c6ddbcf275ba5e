//! What can be set, what opening tells, and why it may fail.

use crate::writers::Limits;
use scalebricks_control::engine::MAX_BATCH_BYTES;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;

/// How a log is kept. What is stored can be opened with any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A segment that is this long is closed and another begun: 4 KiB to 1 GiB. Trimming frees space segment by segment.
    pub segment_bytes: u64,
    /// Bytes that may wait for the disk, at least 2 MiB; a caller that comes with more is refused.
    pub queue_bytes: usize,
    /// Bytes made durable by one fsync, at the most 8 MiB, and a batch more.
    pub group_bytes: usize,
    /// Batches that are remembered of each writer of a partition, so that retries of them are answered.
    pub remembered_batches: usize,
    /// Writers that are remembered of each partition.
    pub remembered_writers: usize,
    /// Goes into the checksums of the segments made from now on. Drawn at random unless a test wants equal bytes.
    pub salt: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            queue_bytes: 64 << 20,
            group_bytes: 4 << 20,
            remembered_batches: 128,
            remembered_writers: 256,
            salt: RandomState::new().build_hasher().finish(),
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let problem = if !(4 << 10..=1 << 30).contains(&self.segment_bytes) {
            "segment_bytes is not from 4 KiB to 1 GiB"
        } else if self.queue_bytes < 2 * MAX_BATCH_BYTES {
            "queue_bytes is below 2 MiB"
        } else if self.group_bytes > 8 << 20 {
            "group_bytes is above 8 MiB"
        } else if self.remembered_batches == 0 || self.remembered_writers == 0 {
            "remembered_batches and remembered_writers are at least 1"
        } else {
            return Ok(());
        };
        Err(OpenError::Options(problem))
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { batches: self.remembered_batches, writers: self.remembered_writers }
    }
}

/// The end of the log that a crash left half written, so that it was not acknowledged. Damage by the disk to exactly the last group of a log
/// that was not closed looks the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub file: String,
    /// Where it was cut.
    pub offset: u64,
    /// Bytes that were cut off.
    pub bytes: u64,
    /// What was wrong with them.
    pub what: &'static str,
}

/// What was found at opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Segments read.
    pub segments: usize,
    /// Groups in them: fsyncs that succeeded.
    pub groups: u64,
    /// Entries that can be read.
    pub entries: u64,
    /// Records that exist.
    pub records: usize,
    /// Whether nothing was written since the log was closed in order.
    pub was_closed: bool,
    /// What was cut off.
    pub torn: Option<Torn>,
    /// Files removed, as they were not finished.
    pub removed: Vec<String>,
}

/// Why a log cannot be opened. Nothing was changed, unless [`OpenError::Io`] came in between.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it, or another part of this one.
    #[error("the log in {0} is in use by another process")]
    InUse(String),
    /// The operating system refused.
    #[error("{file}: cannot {what}: {source}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// To which file.
        file: String,
        /// The reason given.
        source: io::Error,
    },
    /// What is stored is not what was written, and it is not the end of the log, where a crash leaves its traces.
    #[error(
        "the log is damaged in {file} at offset {offset}: {what}. Nothing was changed: put a whole copy of the \
         directory in its place, or move it away and begin with an empty one from the other nodes' state"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Made by another version of the software.
    #[error("{file} is of version {version} of the format; this program reads {}", super::frame::LOG_VERSION)]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u16,
    },
    /// Options that cannot be.
    #[error("{0}")]
    Options(&'static str),
}

impl OpenError {
    pub(super) fn io(what: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { what, file, source }
    }

    pub(super) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, what: what.into() }
    }
}
