//! The end of the log, where groups are written.

use super::frame::{GroupBuilder, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::recover::segment_name;
use super::state::Segment;
use super::storage::{Storage, write_all_at};
use std::io;
use std::sync::Arc;

/// Why a group was not written.
#[derive(Debug, Clone)]
pub(super) enum WriteError {
    /// It is not in the log, provably, and the log can be written on.
    Refused(String),
    /// Nobody knows whether it is; the log must not be written until it was opened again.
    Broken(String),
}

/// Why a segment was not made.
#[derive(Debug)]
pub(super) struct CreateError {
    pub error: io::Error,
    /// Whether it was an fsync that failed. After that nothing said about these names can be believed.
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

/// Makes a segment that holds nothing yet, durably.
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

/// Removes a segment, durably: they go one by one, oldest first, so that a crash leaves no hole.
pub(super) fn remove_segment(storage: &dyn Storage, name: &str) -> io::Result<()> {
    storage.remove(name)?;
    storage.sync_names()
}

/// The last segment, and where the next group goes.
#[derive(Debug)]
pub(super) struct Tail {
    pub sequence: u32,
    segment: Arc<Segment>,
    len: u64,
    next_group: u64,
    /// The buffer of the last group, for the next.
    buffer: Vec<u8>,
}

impl Tail {
    pub(super) fn new(sequence: u32, segment: Arc<Segment>, len: u64, next_group: u64) -> Self {
        Self { sequence, segment, len, next_group, buffer: Vec::new() }
    }

    /// Whether the segment is as long as segments should get.
    pub(super) fn is_full(&self, segment_bytes: u64) -> bool {
        self.len >= segment_bytes && self.len > SEGMENT_HEADER_BYTES as u64
    }

    /// The segment.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// An empty group for the place where the next one goes.
    pub(super) fn group(&mut self) -> GroupBuilder {
        GroupBuilder::new(std::mem::take(&mut self.buffer), self.segment.seal, self.len)
    }

    /// Writes a group and makes it durable: one write and one fsync. Returns its offset and its bytes, which should come
    /// back through [`Self::reuse`].
    pub(super) fn write(&mut self, group: GroupBuilder) -> Result<(u64, Vec<u8>), WriteError> {
        let bytes = group.finish(self.next_group);
        let file = self.segment.file.as_ref();
        if let Err(error) = write_all_at(file, &bytes, self.len) {
            // What did get written goes; when that is durable it can never turn up again.
            return Err(match file.truncate(self.len).and_then(|()| file.sync()) {
                Ok(()) => WriteError::Refused(format!("{}: {error}", self.segment.name)),
                Err(second) => WriteError::Broken(format!(
                    "{}: {error}; and what was written could not be taken back: {second}",
                    self.segment.name
                )),
            });
        }
        // Never tried again: the second fsync would say yes to pages that the first has lost.
        file.sync().map_err(|error| WriteError::Broken(format!("{}: fsync: {error}", self.segment.name)))?;
        let offset = self.len;
        self.len += bytes.len() as u64;
        self.next_group += 1;
        Ok((offset, bytes))
    }

    /// Gives a group's buffer back, unless it is so large that it was an exception.
    pub(super) fn reuse(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() <= 8 << 20 {
            self.buffer = bytes;
        }
    }

    /// Begins the next segment.
    pub(super) fn roll(&mut self, storage: &dyn Storage, salt: u64) -> Result<(), WriteError> {
        let Some(sequence) = self.sequence.checked_add(1) else {
            return Err(WriteError::Refused("there are no more numbers for segments".to_owned()));
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
            // A finished header left behind would contradict groups that still go to the old segment.
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
