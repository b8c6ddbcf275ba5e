//! Reading a log back: what it says, where it ends, and whether it is whole.
//!
//! Only the end of the last segment may be spoilt, and only by one group: the one being written when the process died. It
//! is cut off. Anything else that does not read as it was written is damage, and the log is not opened: groups are
//! numbered, segments say with which group they begin, and positions rise by one, so what is missing shows as well as what
//! was changed.

use super::frame::{
    self, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, HeaderError, MAX_GROUP_BYTES, SEGMENT_HEADER_BYTES,
    Seal, SegmentHeader,
};
use super::options::{OpenError, OpenReport, Options, Torn};
use super::state::{Segment, State};
use super::storage::{Storage, StoredFile, read_exact_at, write_all_at};
use super::tail::{self, Tail};
use std::sync::Arc;

/// A log that was read back.
pub(super) struct Recovered {
    pub state: State,
    pub tail: Tail,
    pub report: OpenReport,
}

/// The name of a segment.
pub(super) fn segment_name(sequence: u32) -> String {
    format!("log-{sequence:010}.seg")
}

fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("log-")?.strip_suffix(".seg")?;
    let sequence = number.parse().ok().filter(|&sequence| sequence > 0)?;
    (segment_name(sequence) == name).then_some(sequence)
}

/// Reads a log back, cuts off what a crash left, and makes sure that what is there is durable.
pub(super) fn recover(storage: &Arc<dyn Storage>, options: &Options) -> Result<Recovered, OpenError> {
    let names = storage.names().map_err(OpenError::io("list the files of", "the directory"))?;
    let mut sequences: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    sequences.sort_unstable();
    for pair in sequences.windows(2) {
        if pair[0] + 1 != pair[1] {
            return Err(OpenError::damaged(&segment_name(pair[0] + 1), 0, "the segment is missing"));
        }
    }
    let mut state = State::new(options.limits());
    let mut report = OpenReport::default();
    let mut end: Option<End> = None;
    for &sequence in &sequences {
        let is_last = sequences.last() == Some(&sequence);
        match scan(storage, sequence, end.as_ref(), is_last, &mut state, &mut report)? {
            Some(scanned) => end = Some(scanned),
            None => report.removed.push(segment_name(sequence)),
        }
    }
    let oldest = state.segments.keys().next().copied();
    if let Some(oldest) = oldest.filter(|&oldest| oldest > state.begin) {
        let what = format!("the segment is missing, and {} is there", segment_name(oldest));
        return Err(OpenError::damaged(&segment_name(state.begin), 0, what));
    }
    if let Some((partition, floor, first)) = state.hole() {
        let what = format!("partition {} lacks the entries from {floor} to {}", partition.0, first - 1);
        return Err(OpenError::damaged(&segment_name(oldest.unwrap_or(1)), 0, what));
    }
    if end.is_none() && sequences.first().is_some_and(|&sequence| sequence != 1) {
        return Err(OpenError::damaged(&segment_name(1), 0, "the segments before the last are missing"));
    }
    // From here on the log is changed.
    for name in &report.removed {
        storage.remove(name).map_err(OpenError::io("remove", name))?;
    }
    let tail = match end {
        Some(end) => end.settle(storage, report.torn.as_ref())?,
        None => {
            let header = SegmentHeader { sequence: 1, first_group: 1, salt: options.salt };
            let segment = tail::create_segment(storage.as_ref(), &header)
                .map_err(|e| OpenError::io("create", &segment_name(1))(e.error))?;
            state.segments.insert(1, Arc::clone(&segment));
            Tail::new(1, segment, SEGMENT_HEADER_BYTES as u64, 1)
        }
    };
    while let Some((&sequence, segment)) = state.segments.first_key_value()
        && sequence < state.begin.min(tail.sequence)
    {
        let name = segment.name.clone();
        tail::remove_segment(storage.as_ref(), &name).map_err(OpenError::io("remove", &name))?;
        state.segments.remove(&sequence);
        report.removed.push(name);
    }
    report.entries = state.entries();
    report.records = state.records.len();
    Ok(Recovered { state, tail, report })
}

/// Where a segment ends.
struct End {
    sequence: u32,
    segment: Arc<Segment>,
    /// Its length, what is torn left out.
    len: u64,
    next_group: u64,
    /// Where the last thing written begins.
    newest: u64,
}

impl End {
    /// Cuts off what is torn and makes durable what is whole.
    ///
    /// That it could be read does not mean that it is on the disk: a process whose fsync failed dies, and what it wrote
    /// may still be in the cache, marked as clean. So the newest group is written again, the same bytes to the same place.
    fn settle(self, storage: &Arc<dyn Storage>, torn: Option<&Torn>) -> Result<Tail, OpenError> {
        let Self { sequence, segment, len, next_group, newest } = self;
        let (name, file) = (segment.name.as_str(), segment.file.as_ref());
        if torn.is_some() {
            file.truncate(len).map_err(OpenError::io("cut", name))?;
        }
        let mut bytes = vec![0; (len - newest) as usize]; // a group or a header
        if !read_exact_at(file, &mut bytes, newest).map_err(OpenError::io("read", name))? {
            return Err(OpenError::damaged(name, newest, "became shorter while it was read"));
        }
        write_all_at(file, &bytes, newest).map_err(OpenError::io("write", name))?;
        file.sync().map_err(OpenError::io("sync", name))?;
        storage.sync_names().map_err(OpenError::io("sync", "the directory"))?;
        Ok(Tail::new(sequence, segment, len, next_group))
    }
}

/// Reads one segment into the state. `None`: it is the last, and its header was never finished.
fn scan(
    storage: &Arc<dyn Storage>,
    sequence: u32,
    before: Option<&End>,
    is_last: bool,
    state: &mut State,
    report: &mut OpenReport,
) -> Result<Option<End>, OpenError> {
    let name = segment_name(sequence);
    let file = storage.open(&name).map_err(OpenError::io("open", &name))?;
    let size = file.size().map_err(OpenError::io("read", &name))?;
    let mut header = vec![0; SEGMENT_HEADER_BYTES.min(usize::try_from(size).unwrap_or(usize::MAX))];
    read_exact_at(file.as_ref(), &mut header, 0).map_err(OpenError::io("read", &name))?;
    let header = match SegmentHeader::decode(&header) {
        Ok(header) => header,
        Err(HeaderError::Version(version)) => return Err(OpenError::Version { file: name, version }),
        // The first group is written when the header is durable, so behind a torn header there is nothing.
        Err(HeaderError::Broken(_)) if is_last && size <= SEGMENT_HEADER_BYTES as u64 => return Ok(None),
        Err(HeaderError::Broken(what)) => return Err(OpenError::damaged(&name, 0, what)),
    };
    if header.sequence != sequence {
        return Err(OpenError::damaged(&name, 0, format!("says it is segment {}", header.sequence)));
    }
    if header.first_group == 0 || header.first_group > u64::MAX / 2 {
        return Err(OpenError::damaged(&name, 0, format!("begins with group {}", header.first_group)));
    }
    if let Some(before) = before.filter(|before| before.next_group != header.first_group) {
        let what =
            format!("groups {} to {} are missing", before.next_group, header.first_group.wrapping_sub(1));
        return Err(OpenError::damaged(&before.segment.name, before.len, what));
    }
    let segment = Arc::new(Segment { name: name.clone(), file: Arc::clone(&file), seal: header.seal() });
    let mut scanner =
        Scanner { name: &name, file: file.as_ref(), seal: header.seal(), size, buffer: Vec::new() };
    let (mut at, mut newest, mut next_group) = (SEGMENT_HEADER_BYTES as u64, 0, header.first_group);
    while at < size {
        match scanner.group(at, next_group)? {
            Ok(group) => {
                let body = scanner.buffer.as_slice();
                let frames = frame::frames(group, body, scanner.seal, at + GROUP_HEADER_BYTES as u64);
                let frames = match frames {
                    Ok(frames) => frames,
                    Err((offset, what)) => {
                        let end = at + GROUP_HEADER_BYTES as u64 + u64::from(group.len);
                        if !is_last || end < size {
                            return Err(OpenError::damaged(&name, offset, what));
                        }
                        report.torn = Some(Torn { file: name.clone(), offset: at, bytes: size - at, what });
                        break;
                    }
                };
                report.was_closed = false;
                for (frame, offset, len) in frames {
                    report.was_closed |= frame == frame::Frame::Close;
                    state
                        .apply(&frame, sequence, offset, len)
                        .map_err(|what| OpenError::damaged(&name, offset, what))?;
                }
                newest = at;
                at += GROUP_HEADER_BYTES as u64 + u64::from(group.len);
                next_group += 1;
                report.groups += 1;
            }
            Err(what) if is_last && !scanner.is_group_behind(at)? => {
                report.torn = Some(Torn { file: name.clone(), offset: at, bytes: size - at, what });
                break;
            }
            Err(what) => return Err(OpenError::damaged(&name, at, what)),
        }
    }
    report.segments += 1;
    report.was_closed &= report.torn.is_none();
    state.segments.insert(sequence, Arc::clone(&segment));
    Ok(Some(End { sequence, segment, len: at, next_group, newest }))
}

struct Scanner<'a> {
    name: &'a str,
    file: &'a dyn StoredFile,
    seal: Seal,
    size: u64,
    buffer: Vec<u8>,
}

impl Scanner<'_> {
    fn read(&mut self, len: usize, offset: u64) -> Result<(), OpenError> {
        self.buffer.resize(len, 0);
        match read_exact_at(self.file, &mut self.buffer, offset) {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpenError::damaged(self.name, offset, "became shorter while it was read")),
            Err(source) => Err(OpenError::io("read", self.name)(source)),
        }
    }

    /// Reads the group at `at`, leaving its frames in the buffer. The inner error says what is wrong with its header; one
    /// that says more than the file holds is incomplete.
    fn group(&mut self, at: u64, number: u64) -> Result<Result<GroupHeader, &'static str>, OpenError> {
        let left = self.size - at;
        if left < GROUP_HEADER_BYTES as u64 {
            return Ok(Err("incomplete group"));
        }
        self.read(GROUP_HEADER_BYTES, at)?;
        let Some(header) = GroupHeader::decode(&self.buffer, self.seal, at) else {
            return Ok(Err("header of a group"));
        };
        if header.number != number {
            let what = format!("group {} where group {number} should be", header.number);
            return Err(OpenError::damaged(self.name, at, what));
        }
        if u64::from(header.len) > left - GROUP_HEADER_BYTES as u64 {
            return Ok(Err("incomplete group"));
        }
        self.read(header.len as usize, at + GROUP_HEADER_BYTES as u64)?;
        Ok(Ok(header))
    }

    /// Whether what is behind `at` cannot be the rest of one group that was being written: it is too long for that, or
    /// there is a group in it.
    fn is_group_behind(&mut self, at: u64) -> Result<bool, OpenError> {
        let left = self.size - at;
        if left > u64::from(MAX_GROUP_BYTES) + GROUP_HEADER_BYTES as u64 {
            return Ok(true);
        }
        self.read(left as usize, at)?; // at most 16 MiB
        let starts = self.buffer.windows(GROUP_MAGIC.len()).enumerate().skip(1);
        let mut starts = starts.filter(|(_, window)| *window == GROUP_MAGIC).map(|(i, _)| i);
        Ok(starts.any(|i| GroupHeader::decode(&self.buffer[i..], self.seal, at + i as u64).is_some()))
    }
}
