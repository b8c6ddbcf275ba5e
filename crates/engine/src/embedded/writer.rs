//! The writer thread: requests that arrived during the last fsync become the next group.

use super::frame::{Frame, GROUP_HEADER_BYTES, GroupBuilder, GroupHeader, frames};
use super::group_commit::GroupCommit;
use super::log_core::LogCore;
use super::queue::{Requests, Stop};
use super::tail::{Tail, WriteError, remove_segment};
use scalebricks_control::engine::Revision;
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Deleted records that are kept for watchers before the writer checks whether all have seen them.
const DELETED_LIMIT: usize = 1024;

/// Writes until the queue is closed or the disk fails.
pub(super) fn run(core: &Arc<LogCore>, tail: Tail) {
    // If the writer panics, callers must not wait forever.
    let guard = StopOnDrop(core);
    let mut writer = Writer { core, tail };
    while let Some(requests) = core.queue.take(core.options.group_bytes) {
        if let Err(error) = writer.turn(requests) {
            drop(guard);
            return core.stop(Stop::Broken(error));
        }
    }
    writer.close();
    drop(guard);
}

struct StopOnDrop<'a>(&'a LogCore);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Stop::Broken("its writer failed".to_owned()));
        }
    }
}

struct Writer<'a> {
    core: &'a Arc<LogCore>,
    tail: Tail,
}

impl Writer<'_> {
    /// Writes one group and answers its requests. After an error the log must not be written.
    fn turn(&mut self, mut requests: Requests) -> Result<(), String> {
        let core = self.core;
        let (bytes, ids) = requests.receipt();
        let rolled = self.roll_if_full();
        let mut group = GroupCommit::new(self.tail.group());
        {
            let state = core.state();
            requests.list.drain(..).for_each(|request| group.add(request, &state));
        }
        let has_trim = group.has_trim;
        let (builder, replies) = group.into_parts();
        let is_empty = builder.is_empty();
        let written = rolled.and_then(|()| if is_empty { Ok(()) } else { self.commit(builder) });
        core.queue.done(bytes, &ids);
        match written {
            Ok(()) => {
                // Before the reply, so that the space is free when the trim returns.
                let dropped = if has_trim { self.drop_segments() } else { Ok(()) };
                replies.accept();
                match dropped {
                    Err(WriteError::Broken(why)) => Err(why),
                    // The entries are trimmed anyway; the next trim tries again to free their space.
                    Err(WriteError::Refused(_)) | Ok(()) => Ok(()),
                }
            }
            Err(error) => {
                // Stop first: a caller that receives the failure must find the log stopped.
                if let WriteError::Broken(why) = &error {
                    core.stop(Stop::Broken(why.clone()));
                }
                replies.fail(&error);
                match error {
                    WriteError::Broken(why) => Err(why),
                    WriteError::Refused(_) => Ok(()),
                }
            }
        }
    }

    fn roll_if_full(&mut self) -> Result<(), WriteError> {
        if !self.tail.is_full(self.core.options.segment_bytes) {
            return Ok(());
        }
        self.tail.roll(self.core.storage.as_ref(), self.core.options.salt)?;
        self.core.state_mut().segments.insert(self.tail.sequence, Arc::clone(self.tail.segment()));
        Ok(())
    }

    /// Makes a group durable, then applies it with the code that also recovers the log.
    fn commit(&mut self, builder: GroupBuilder) -> Result<(), WriteError> {
        let seal = self.tail.segment().seal;
        let (offset, bytes) = self.tail.write(builder)?;
        let mut news = BTreeSet::<PartitionId>::new();
        let mut has_records = false;
        let applied = self.apply(&bytes, seal, offset, &mut news, &mut has_records);
        self.tail.reuse(bytes);
        for partition in &news {
            self.core.entry_listeners.wake(partition);
        }
        if has_records {
            self.forget_deleted();
            self.core.record_listeners.wake(&());
        }
        applied.map_err(WriteError::Broken)
    }

    fn apply(
        &self,
        bytes: &[u8],
        seal: super::frame::Seal,
        offset: u64,
        news: &mut BTreeSet<PartitionId>,
        has_records: &mut bool,
    ) -> Result<(), String> {
        let header = GroupHeader::decode(bytes, seal, offset).ok_or("a written group cannot be decoded")?;
        let body = bytes.get(GROUP_HEADER_BYTES..).unwrap_or_default();
        let frames =
            frames(header, body, seal, offset + GROUP_HEADER_BYTES as u64).map_err(|(_, what)| what)?;
        let mut state = self.core.state_mut();
        for (frame, offset, len) in frames {
            state.apply(&frame, self.tail.sequence, offset, len)?;
            match frame {
                Frame::Entry { partition, .. } => drop(news.insert(partition)),
                Frame::Record { .. } => *has_records = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn forget_deleted(&self) {
        let mut state = self.core.state_mut();
        if state.records.deleted() > DELETED_LIMIT {
            let newest = state.records.newest();
            let up_to = self.core.slowest_record_watcher().map_or(newest, |slowest| slowest.min(newest));
            state.records.forget_deleted(up_to);
        }
    }

    /// Removes the oldest segments whose entries are all trimmed, after copying what else they hold.
    fn drop_segments(&mut self) -> Result<(), WriteError> {
        let keep = {
            let state = self.core.state();
            let keep = state.oldest_needed().unwrap_or(self.tail.sequence).min(self.tail.sequence);
            if state.segments.first_key_value().is_none_or(|(&oldest, _)| oldest >= keep) {
                return Ok(());
            }
            keep
        };
        self.carry(keep)?;
        loop {
            let oldest = {
                let state = self.core.state();
                let oldest = state.segments.first_key_value();
                oldest
                    .filter(|(sequence, _)| **sequence < keep)
                    .map(|(&sequence, segment)| (sequence, segment.name.clone()))
            };
            let Some((sequence, name)) = oldest else { return Ok(()) };
            // After a failure the name may or may not be gone: recovery decides.
            remove_segment(self.core.storage.as_ref(), &name)
                .map_err(|error| WriteError::Broken(format!("{name}: cannot be removed: {error}")))?;
            self.core.state_mut().segments.remove(&sequence);
        }
    }

    /// Copies what the segments before `keep` hold and is still valid: records, trimmed positions, the newest revision.
    /// When that is durable, writes that those segments are not needed.
    fn carry(&mut self, keep: u32) -> Result<(), WriteError> {
        let (records, trims, newest) = {
            let state = self.core.state();
            let records: Vec<_> =
                state.records.before(keep).map(|(key, slot)| (key.clone(), slot.clone())).collect();
            let logs = state.partitions.iter().filter(|(_, log)| log.floor() > 1);
            let trims: Vec<_> = logs.map(|(&partition, log)| (partition, Position(log.floor()))).collect();
            (records, trims, state.records.newest())
        };
        let records = records.iter().map(|(key, slot)| Frame::Record {
            key,
            revision: slot.revision,
            value: slot.value.as_deref(),
        });
        let trims = trims.iter().map(|&(partition, below)| Frame::Trim { partition, below });
        let revisions = (newest > Revision(0)).then_some(Frame::Revisions { newest });
        let mut group = None;
        for frame in records.chain(trims).chain(revisions) {
            let mut builder = match group.take() {
                Some(builder) => builder,
                None => self.next_group()?,
            };
            builder.push(&frame);
            if builder.len() >= self.core.options.group_bytes {
                self.commit(builder)?;
            } else {
                group = Some(builder);
            }
        }
        if let Some(builder) = group {
            self.commit(builder)?;
        }
        let mut last = self.next_group()?;
        last.push(&Frame::Begin { segment: keep });
        self.commit(last)
    }

    fn next_group(&mut self) -> Result<GroupBuilder, WriteError> {
        self.roll_if_full()?;
        Ok(self.tail.group())
    }

    /// Marks the log as closed, so that later damage to its last entries is not taken for a crash. If the mark cannot
    /// be written, nothing is lost.
    fn close(&mut self) {
        if let Ok(mut builder) = self.next_group() {
            builder.push(&Frame::Close);
            drop(self.tail.write(builder));
        }
    }
}
