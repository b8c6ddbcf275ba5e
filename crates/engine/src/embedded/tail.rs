//! The tail: the end of the log, where groups are appended.

use super::frame::{GroupBuilder, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::recover::segment_name;
use super::state::Segment;
use super::storage::{Storage, write_all_at};
use std::io;
use std::sync::Arc;

/// Why a group was not written.
#[derive(Debug, Clone)]
pub(super) enum WriteError {
    /// It is certainly not in the log, and the log can still be written.
    Refused(String),
    /// The outcome is unknown; the log must not be written until it is opened again.
    Broken(String),
}

/// Why a segment was not created.
#[derive(Debug)]
pub(super) struct CreateError {
    pub error: io::Error,
    /// Whether an fsync failed. After that the state of these names on the disk is unknown.
    is_sync: bool,
}

impl CreateError {
    fn sync(error: io::Error) -> Self {
        Self { error, is_sync: true }
    }
}

impl From<io::Error> for CreateError {
    fn from(error: io::Error) -> Self {
        Self { error, is_sync: false }
    }
}

/// Creates an empty segment durably.
pub(super) fn create_segment(
    storage: &dyn Storage,
    header: &SegmentHeader,
) -> Result<Arc<Segment>, CreateError> {
    let name = segment_name(header.sequence);
    let file = storage.create(&name)?;
    write_all_at(file.as_ref(), &header.encode(), 0)?;
    file.sync().map_err(CreateError::sync)?;
    storage.sync_names().map_err(CreateError::sync)?;
    Ok(Arc::new(Segment { name, file, seal: header.seal() }))
}

/// Removes a segment durably: one by one, oldest first, so that a crash leaves no hole.
pub(super) fn remove_segment(storage: &dyn Storage, name: &str) -> io::Result<()> {
    storage.remove(name)?;
    storage.sync_names()
}

/// The last segment, and the place of the next group.
#[derive(Debug)]
pub(super) struct Tail {
    pub sequence: u32,
    segment: Arc<Segment>,
    len: u64,
    next_group: u64,
    /// Reused buffer for groups.
    buffer: Vec<u8>,
}

impl Tail {
    pub(super) fn new(sequence: u32, segment: Arc<Segment>, len: u64, next_group: u64) -> Self {
        Self { sequence, segment, len, next_group, buffer: Vec::new() }
    }

    /// Whether the segment has reached its maximum length.
    pub(super) fn is_full(&self, segment_bytes: u64) -> bool {
        self.len >= segment_bytes && self.len > SEGMENT_HEADER_BYTES as u64
    }

    /// The segment.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// An empty group for the next place.
    pub(super) fn group(&mut self) -> GroupBuilder {
        GroupBuilder::new(std::mem::take(&mut self.buffer), self.segment.seal, self.len)
    }

    /// Writes a group and makes it durable: one write and one fsync. Returns its offset and its buffer, for
    /// [`Self::reuse`].
    pub(super) fn write(&mut self, group: GroupBuilder) -> Result<(u64, Vec<u8>), WriteError> {
        let bytes = group.finish(self.next_group);
        let file = self.segment.file.as_ref();
        if let Err(error) = write_all_at(file, &bytes, self.len) {
            // Cuts off what was written; once that is durable it cannot reappear.
            return Err(match file.truncate(self.len).and_then(|()| file.sync()) {
                Ok(()) => WriteError::Refused(format!("{}: {error}", self.segment.name)),
                Err(second) => WriteError::Broken(format!(
                    "{}: {error}; what was written could not be cut off: {second}",
                    self.segment.name
                )),
            });
        }
        // Never retried: a second fsync would succeed although the first lost pages.
        file.sync().map_err(|error| WriteError::Broken(format!("{}: fsync: {error}", self.segment.name)))?;
        let offset = self.len;
        self.len += bytes.len() as u64;
        self.next_group += 1;
        Ok((offset, bytes))
    }

    /// Keeps a group's buffer for reuse, unless it is unusually large.
    pub(super) fn reuse(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() <= 8 << 20 {
            self.buffer = bytes;
        }
    }

    /// Begins the next segment.
    pub(super) fn roll(&mut self, storage: &dyn Storage, salt: u64) -> Result<(), WriteError> {
        let Some(sequence) = self.sequence.checked_add(1) else {
            return Err(WriteError::Refused("no segment number is left".to_owned()));
        };
        let header = SegmentHeader { sequence, first_group: self.next_group, salt };
        match create_segment(storage, &header) {
            Ok(segment) => {
                (self.sequence, self.segment) = (sequence, segment);
                self.len = SEGMENT_HEADER_BYTES as u64;
                Ok(())
            }
            Err(CreateError { error, is_sync: true }) => {
                Err(WriteError::Broken(format!("{}: fsync: {error}", segment_name(sequence))))
            }
            // A finished header left behind would contradict groups that are still written to the old segment.
            Err(CreateError { error, is_sync: false }) => {
                let name = segment_name(sequence);
                let gone = match storage.remove(&name) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                    done => done,
                };
                Err(match gone.and_then(|()| storage.sync_names()) {
                    Ok(()) => WriteError::Refused(format!("{name}: {error}")),
                    Err(second) => WriteError::Broken(format!("{name}: {error}; then: {second}")),
                })
            }
        }
    }
}
