//! Options, and the report and errors of opening a log.

use crate::writers::Limits;
use scalebricks_control::engine::MAX_BATCH_BYTES;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;

/// Options of a log. A stored log can be opened with any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Length at which a new segment begins: 4 KiB to 1 GiB. Trimming frees space by segments.
    pub segment_bytes: u64,
    /// Bytes that may wait for the disk, at least 2 MiB; further requests are refused.
    pub queue_bytes: usize,
    /// Bytes made durable by one fsync, at most 8 MiB, plus one batch.
    pub group_bytes: usize,
    /// Batches remembered per writer and partition, to answer retries.
    pub remembered_batches: usize,
    /// Writers remembered per partition.
    pub remembered_writers: usize,
    /// Part of the checksums of new segments. Random; tests set it to get equal bytes.
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

/// The end of the log that a crash left half written, so that it was not acknowledged. Damage to exactly the last group
/// of a log that was not closed looks the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The segment file.
    pub file: String,
    /// Offset of the cut.
    pub offset: u64,
    /// Bytes that were cut off.
    pub bytes: u64,
    /// What is wrong with them.
    pub what: &'static str,
}

/// What opening found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Number of segments.
    pub segments: usize,
    /// Groups in them: successful fsyncs.
    pub groups: u64,
    /// Untrimmed entries.
    pub entries: u64,
    /// Existing records.
    pub records: usize,
    /// Whether the log ends with the mark of a closed log.
    pub was_closed: bool,
    /// The torn group that was cut off.
    pub torn: Option<Torn>,
    /// Unfinished files that were removed.
    pub removed: Vec<String>,
}

/// Why a log cannot be opened. Nothing was changed, except possibly before [`OpenError::Io`].
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, has it open.
    #[error("the log in {0} is in use by another process")]
    InUse(String),
    /// An error of the operating system.
    #[error("{file}: cannot {what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        file: String,
        /// The error.
        source: io::Error,
    },
    /// The stored bytes differ from what was written, and not only at the end, as after a crash.
    #[error(
        "the log is damaged in {file} at offset {offset}: {what}. Nothing was changed: put a whole copy of the \
         directory in its place, or move it away and start with an empty one"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Written by another version of the software.
    #[error("{file} has format version {version}; this program reads {}", super::frame::LOG_VERSION)]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u16,
    },
    /// Invalid options.
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
