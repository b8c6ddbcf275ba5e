//! Recovery: reads a log into memory, finds its end, and detects damage.
//!
//! Only the end of the last segment may be torn, and only by one group: the one being written when the process died. It
//! is cut off. Any other difference from what was written is damage, and the log is not opened. Groups are numbered,
//! segments contain the number of their first group, and positions rise by one, so missing data is detected like
//! changed data.

use super::frame::{
    self, Frame, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, HeaderError, MAX_GROUP_BYTES, PlacedFrame,
    SEGMENT_HEADER_BYTES, Seal, SegmentHeader,
};
use super::options::{OpenError, OpenReport, Options, Torn};
use super::state::{Segment, State};
use super::storage::{Storage, StoredFile, read_exact_at, write_all_at};
use super::tail::{self, Tail};
use std::sync::Arc;

/// A recovered log.
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

/// Recovers a log: reads it, cuts off a torn group, and makes the rest durable.
pub(super) fn recover(storage: &Arc<dyn Storage>, options: &Options) -> Result<Recovered, OpenError> {
    let mut state = State::new(options.limits());
    let mut report = OpenReport::default();
    let end = read_back(storage, &mut state, &mut report)?;
    // From here on the log is changed.
    for name in &report.removed {
        storage.remove(name).map_err(OpenError::io("remove", name))?;
    }
    let tail = if let Some(end) = end {
        end.settle(storage, report.torn.as_ref())?
    } else {
        let header = SegmentHeader { sequence: 1, first_group: 1, salt: options.salt };
        let segment = tail::create_segment(storage.as_ref(), &header)
            .map_err(|e| OpenError::io("create", &segment_name(1))(e.error))?;
        state.segments.insert(1, Arc::clone(&segment));
        Tail::new(1, segment, SEGMENT_HEADER_BYTES as u64, 1)
    };
    // Segments before `begin`, which a crash can leave behind, are removed with the next trim.
    Ok(Recovered { state, tail, report })
}

/// Reads a log and changes nothing. After an error, `state` and `report` contain what was read before it. `None`: there
/// is no usable segment.
pub(super) fn read_back(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    report: &mut OpenReport,
) -> Result<Option<End>, OpenError> {
    let done = read_segments(storage, state, report);
    report.entries = state.entries();
    report.records = state.records.len();
    done
}

fn read_segments(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    report: &mut OpenReport,
) -> Result<Option<End>, OpenError> {
    let names = storage.names().map_err(OpenError::io("list the files of", "the directory"))?;
    let mut sequences: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    sequences.sort_unstable();
    for pair in sequences.windows(2) {
        if pair[0] + 1 != pair[1] {
            return Err(OpenError::damaged(&segment_name(pair[0] + 1), 0, "the segment is missing"));
        }
    }
    let mut end: Option<End> = None;
    for &sequence in &sequences {
        let is_last = sequences.last() == Some(&sequence);
        match scan(storage, sequence, end.as_ref(), is_last, state, report)? {
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
    Ok(end)
}

/// Where a segment ends.
pub(super) struct End {
    sequence: u32,
    segment: Arc<Segment>,
    /// Its length without a torn group.
    len: u64,
    next_group: u64,
    /// Offset of the newest group, or of the header.
    newest: u64,
}

impl End {
    /// Cuts off a torn group and makes the rest durable.
    ///
    /// Data that can be read need not be on the disk: after a failed fsync it may be in the cache, marked as clean. So
    /// the newest group is written again, the same bytes to the same place.
    fn settle(self, storage: &Arc<dyn Storage>, torn: Option<&Torn>) -> Result<Tail, OpenError> {
        let Self { sequence, segment, len, next_group, newest } = self;
        let (name, file) = (segment.name.as_str(), segment.file.as_ref());
        if torn.is_some() {
            file.truncate(len).map_err(OpenError::io("cut", name))?;
        }
        let mut bytes = vec![0; (len - newest) as usize]; // a group or a header
        if !read_exact_at(file, &mut bytes, newest).map_err(OpenError::io("read", name))? {
            return Err(OpenError::damaged(name, newest, "the file became shorter while it was read"));
        }
        write_all_at(file, &bytes, newest).map_err(OpenError::io("write", name))?;
        file.sync().map_err(OpenError::io("sync", name))?;
        storage.sync_names().map_err(OpenError::io("sync", "the directory"))?;
        Ok(Tail::new(sequence, segment, len, next_group))
    }
}

/// Reads one segment into the state. `None`: it is the last, and its header is unfinished.
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
    let Some(header) = read_header(&name, file.as_ref(), size, is_last)? else { return Ok(None) };
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
    let mut buffer = Vec::new();
    let scanner = Scanner { name: &name, file: file.as_ref(), seal: header.seal(), size };
    let mut end = End {
        sequence,
        segment,
        len: SEGMENT_HEADER_BYTES as u64,
        next_group: header.first_group,
        newest: 0,
    };
    while end.len < size {
        let at = end.len;
        match scanner.group(at, end.next_group, &mut buffer)? {
            Ok(frames) => {
                report.was_closed = false;
                for (frame, offset, len) in frames {
                    report.was_closed |= frame == Frame::Close;
                    state
                        .apply(&frame, sequence, offset, len)
                        .map_err(|what| OpenError::damaged(&name, offset, what))?;
                }
                end.newest = at;
                end.len += (GROUP_HEADER_BYTES + buffer.len()) as u64;
                end.next_group += 1;
                report.groups += 1;
            }
            Err(bad) if is_last && !scanner.is_damage(at, bad)? => {
                report.torn = Some(Torn { file: name.clone(), offset: at, bytes: size - at, what: bad.what });
                report.was_closed = false;
                break;
            }
            Err(bad) => return Err(OpenError::damaged(&name, bad.offset, bad.what)),
        }
    }
    report.segments += 1;
    state.segments.insert(sequence, Arc::clone(&end.segment));
    Ok(Some(end))
}

/// A segment's header. `None`: it is unfinished, which is allowed for the last segment.
fn read_header(
    name: &str,
    file: &dyn StoredFile,
    size: u64,
    is_last: bool,
) -> Result<Option<SegmentHeader>, OpenError> {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    let there = usize::try_from(size).unwrap_or(usize::MAX).min(SEGMENT_HEADER_BYTES);
    read_exact_at(file, &mut header[..there], 0).map_err(OpenError::io("read", name))?;
    match SegmentHeader::decode(&header[..there]) {
        Ok(header) => Ok(Some(header)),
        Err(HeaderError::Version(version)) => Err(OpenError::Version { file: name.to_owned(), version }),
        // The first group is written when the header is durable, so nothing follows a torn header.
        Err(HeaderError::Broken(_)) if is_last && size <= SEGMENT_HEADER_BYTES as u64 => Ok(None),
        Err(HeaderError::Broken(what)) => Err(OpenError::damaged(name, 0, what)),
    }
}

/// A damaged or incomplete group.
#[derive(Debug, Clone, Copy)]
struct Bad {
    what: &'static str,
    offset: u64,
    /// Its end, if its header is intact.
    end: Option<u64>,
}

struct Scanner<'a> {
    name: &'a str,
    file: &'a dyn StoredFile,
    seal: Seal,
    size: u64,
}

impl Scanner<'_> {
    fn read(&self, buffer: &mut Vec<u8>, len: usize, offset: u64) -> Result<(), OpenError> {
        buffer.resize(len, 0);
        match read_exact_at(self.file, buffer, offset) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(OpenError::damaged(self.name, offset, "the file became shorter while it was read"))
            }
            Err(source) => Err(OpenError::io("read", self.name)(source)),
        }
    }

    /// Reads the group at `at`. The inner error: it is damaged or incomplete.
    fn group<'b>(
        &self,
        at: u64,
        number: u64,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Result<Vec<PlacedFrame<'b>>, Bad>, OpenError> {
        let bad = |what, end| Ok(Err(Bad { what, offset: at, end }));
        let left = self.size - at;
        if left < GROUP_HEADER_BYTES as u64 {
            return bad("incomplete group", None);
        }
        self.read(buffer, GROUP_HEADER_BYTES, at)?;
        let Some(header) = GroupHeader::decode(buffer, self.seal, at) else {
            return bad("header of a group", None);
        };
        if header.number != number {
            let what = format!("group {} where group {number} should be", header.number);
            return Err(OpenError::damaged(self.name, at, what));
        }
        let body = at + GROUP_HEADER_BYTES as u64;
        let end = body + u64::from(header.len);
        if end > self.size {
            return bad("incomplete group", Some(end));
        }
        self.read(buffer, header.len as usize, body)?;
        let frames = frame::frames(header, buffer, self.seal, body);
        Ok(frames.map_err(|(offset, what)| Bad { what, offset, end: Some(end) }))
    }

    /// Whether the bad group at `at` is damage and not a torn write: something follows it, or it is longer than groups
    /// can be.
    fn is_damage(&self, at: u64, bad: Bad) -> Result<bool, OpenError> {
        if let Some(end) = bad.end {
            return Ok(end < self.size);
        }
        let left = self.size - at;
        if left > u64::from(MAX_GROUP_BYTES) + GROUP_HEADER_BYTES as u64 {
            return Ok(true);
        }
        let mut tail = vec![0; left as usize]; // at most 16 MiB
        read_exact_at(self.file, &mut tail, at).map_err(OpenError::io("read", self.name))?;
        let starts = tail.windows(GROUP_MAGIC.len()).enumerate().skip(1);
        let mut starts = starts.filter(|(_, window)| *window == GROUP_MAGIC).map(|(i, _)| i);
        Ok(starts.any(|i| GroupHeader::decode(&tail[i..], self.seal, at + i as u64).is_some()))
    }
}
