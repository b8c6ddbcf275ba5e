//! The one thread that writes: whatever waited while the last fsync ran becomes the next group.

use super::draft::Draft;
use super::frame::{Frame, GROUP_HEADER_BYTES, GroupBuilder, GroupHeader, frames};
use super::queue::{Load, Stop};
use super::shared::Shared;
use super::tail::{Tail, WriteError, remove_segment};
use scalebricks_control::engine::Revision;
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Deleted records that are remembered for watchers before it is looked whether they all know.
const DELETED_LIMIT: usize = 1024;

/// Writes until the queue is closed or the disk fails.
pub(super) fn run(shared: &Arc<Shared>, tail: Tail) {
    // Should the writer panic, callers must not wait for ever.
    let guard = StopOnDrop(shared);
    let mut writer = Writer { shared, tail };
    while let Some(load) = shared.queue.take(shared.options.group_bytes) {
        if let Err(error) = writer.turn(load) {
            drop(guard);
            return shared.stop(Stop::Broken(error));
        }
    }
    writer.close();
    drop(guard);
}

struct StopOnDrop<'a>(&'a Shared);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Stop::Broken("its writer failed".to_owned()));
        }
    }
}

struct Writer<'a> {
    shared: &'a Arc<Shared>,
    tail: Tail,
}

impl Writer<'_> {
    /// Writes one group and answers those in it. An error means that the log must not be written any more.
    fn turn(&mut self, mut load: Load) -> Result<(), String> {
        let shared = self.shared;
        let (bytes, ids) = load.receipt();
        let rolled = self.roll_if_full();
        let mut draft = Draft::new(self.tail.group());
        {
            let state = shared.state();
            load.requests.drain(..).for_each(|request| draft.add(request, &state));
        }
        let has_trim = draft.has_trim;
        let (builder, answers) = draft.split();
        let is_empty = builder.is_empty();
        let written = rolled.and_then(|()| if is_empty { Ok(()) } else { self.commit(builder) });
        shared.queue.done(bytes, &ids);
        match written {
            Ok(()) => {
                // Before the answer, so that who trimmed finds the space free.
                let dropped = if has_trim { self.drop_segments() } else { Ok(()) };
                answers.accept();
                match dropped {
                    Err(WriteError::Broken(why)) => Err(why),
                    // The entries are trimmed all the same; the next trim tries again to free their space.
                    Err(WriteError::Refused(_)) | Ok(()) => Ok(()),
                }
            }
            Err(error) => {
                // Stopped first: who hears of the failure must find the log stopped.
                if let WriteError::Broken(why) = &error {
                    shared.stop(Stop::Broken(why.clone()));
                }
                answers.fail(&error);
                match error {
                    WriteError::Broken(why) => Err(why),
                    WriteError::Refused(_) => Ok(()),
                }
            }
        }
    }

    fn roll_if_full(&mut self) -> Result<(), WriteError> {
        if !self.tail.is_full(self.shared.options.segment_bytes) {
            return Ok(());
        }
        self.tail.roll(self.shared.storage.as_ref(), self.shared.options.salt)?;
        self.shared.state_mut().segments.insert(self.tail.sequence, Arc::clone(self.tail.segment()));
        Ok(())
    }

    /// Makes a group durable, then takes in what it says, by the same code that reads it back at opening.
    fn commit(&mut self, builder: GroupBuilder) -> Result<(), WriteError> {
        let seal = self.tail.segment().seal;
        let (offset, bytes) = self.tail.write(builder)?;
        let mut news = BTreeSet::<PartitionId>::new();
        let mut has_records = false;
        let applied = self.apply(&bytes, seal, offset, &mut news, &mut has_records);
        self.tail.reuse(bytes);
        for partition in &news {
            self.shared.entry_listeners.wake(partition);
        }
        if has_records {
            self.forget_deleted();
            self.shared.record_listeners.wake(&());
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
        let header = GroupHeader::decode(bytes, seal, offset).ok_or("a group was not written as it reads")?;
        let body = bytes.get(GROUP_HEADER_BYTES..).unwrap_or_default();
        let frames =
            frames(header, body, seal, offset + GROUP_HEADER_BYTES as u64).map_err(|(_, what)| what)?;
        let mut state = self.shared.state_mut();
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
        let mut state = self.shared.state_mut();
        if state.records.deleted() > DELETED_LIMIT {
            let newest = state.records.newest();
            let up_to = self.shared.slowest_record_watcher().map_or(newest, |slowest| slowest.min(newest));
            state.records.forget_deleted(up_to);
        }
    }

    /// Removes the oldest segments, as far as nobody needs their entries, after writing again what else they say.
    fn drop_segments(&mut self) -> Result<(), WriteError> {
        let keep = {
            let state = self.shared.state();
            let keep = state.oldest_needed().unwrap_or(self.tail.sequence).min(self.tail.sequence);
            if state.segments.first_key_value().is_none_or(|(&oldest, _)| oldest >= keep) {
                return Ok(());
            }
            keep
        };
        self.carry(keep)?;
        loop {
            let oldest = {
                let state = self.shared.state();
                let oldest = state.segments.first_key_value();
                oldest
                    .filter(|(sequence, _)| **sequence < keep)
                    .map(|(&sequence, segment)| (sequence, segment.name.clone()))
            };
            let Some((sequence, name)) = oldest else { return Ok(()) };
            // A name that may or may not be gone is for the next opening to look at.
            remove_segment(self.shared.storage.as_ref(), &name)
                .map_err(|error| WriteError::Broken(format!("{name}: cannot be removed: {error}")))?;
            self.shared.state_mut().segments.remove(&sequence);
        }
    }

    /// Writes again what the segments before `keep` say that is still true: records, how far partitions are trimmed,
    /// revisions. Last comes that those segments are not needed, when all else is durable.
    fn carry(&mut self, keep: u32) -> Result<(), WriteError> {
        let (records, trims, newest) = {
            let state = self.shared.state();
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
            if builder.len() >= self.shared.options.group_bytes {
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

    /// Says that the log ended in order, so that damage to its last entries cannot pass for a crash. If that cannot be
    /// written, nothing is lost.
    fn close(&mut self) {
        if let Ok(mut builder) = self.next_group() {
            builder.push(&Frame::Close);
            drop(self.tail.write(builder));
        }
    }
}
