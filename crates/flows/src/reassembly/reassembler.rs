//! Puts segments in order.

use super::pieces::{NONE, Pieces};
use super::{Chunk, Config, Event, Gap, GapCause, Overlap, PIECE_COST};
use crate::named::Tally;
use crate::tcp::seq::distance;

/// Farthest that a segment may be ahead of its stream, octets: the largest window (RFC 7323 §2.3).
const FARTHEST: i32 = 1 << 30;

/// State of one direction of a connection.
///
/// A stream that waits holds pieces of its [`Reassembler`]; give it to [`Reassembler::finish`] or
/// [`Reassembler::discard`] before it is dropped.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    missing: u64,
    tail: u32,
    /// Octets that wait, with [`PIECE_COST`] for each piece.
    waiting: u32,
    // A segment in order needs what follows; a record keeps it of both directions in one cache line.
    /// Offset of the next octet to deliver.
    offset: u64,
    /// Sequence number of the next octet to deliver.
    next: u32,
    head: u32,
    pieces: u16,
    is_started: bool,
}

/// Where the fields begin that a segment in order needs, and where they end, octets.
pub(crate) const HOT_FIELDS: std::ops::Range<usize> =
    std::mem::offset_of!(Stream, offset)..size_of::<Stream>();

impl Default for Stream {
    /// A stream that starts with its first segment.
    fn default() -> Self {
        Self {
            missing: 0,
            tail: NONE,
            waiting: 0,
            offset: 0,
            next: 0,
            head: NONE,
            pieces: 0,
            is_started: false,
        }
    }
}

impl Stream {
    /// A stream whose first octet has this sequence number.
    pub fn starting_at(sequence: u32) -> Self {
        Self { next: sequence, is_started: true, ..Self::default() }
    }

    /// Whether the sequence number of its first octet is known.
    pub const fn is_started(&self) -> bool {
        self.is_started
    }

    /// The sequence number of the next octet to deliver, if it is known.
    #[inline]
    pub const fn next_sequence(&self) -> Option<u32> {
        if self.is_started { Some(self.next) } else { None }
    }

    /// Offset of the next octet to deliver: octets delivered, and octets of gaps.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The sequence number of an octet by its offset in the stream, which is at most 2 GiB before [`Self::offset`].
    pub const fn sequence_at(&self, offset: u64) -> u32 {
        self.next.wrapping_sub(self.offset.wrapping_sub(offset) as u32)
    }

    /// Octets delivered, without gaps.
    pub const fn delivered(&self) -> u64 {
        self.offset - self.missing
    }

    /// Octets of all gaps.
    pub const fn missing(&self) -> u64 {
        self.missing
    }

    /// Octets that wait, with [`PIECE_COST`] for each piece.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether no segment waits: an acknowledgment delivers nothing.
    #[inline(always)]
    pub(crate) const fn is_clear(&self) -> bool {
        self.head == NONE
    }

    /// Whether data at this sequence number is delivered at once, and nothing else with it.
    #[inline(always)]
    pub(crate) const fn is_due(&self, sequence: u32) -> bool {
        self.is_started && self.next == sequence && self.is_clear()
    }
}

/// Puts the segments of many streams in order. See the [module](super).
#[derive(Debug)]
pub struct Reassembler {
    config: Config,
    pieces: Pieces,
    events: Tally<Event>,
    gaps: Tally<GapCause>,
}

impl Reassembler {
    /// Nothing waits.
    pub fn new(config: Config) -> Self {
        Self { config, pieces: Pieces::new(), events: Tally::default(), gaps: Tally::default() }
    }

    /// What was counted.
    pub const fn events(&self) -> &Tally<Event> {
        &self.events
    }

    /// Gaps by cause.
    pub const fn gaps(&self) -> &Tally<GapCause> {
        &self.gaps
    }

    /// Octets that wait in all streams, with [`PIECE_COST`] for each piece. At most [`Config::total_bytes`].
    pub const fn waiting_bytes(&self) -> u64 {
        self.pieces.used_bytes()
    }

    /// Adds a segment's data; calls `sink` for all bytes and gaps that are due, in order.
    ///
    /// Cost: a segment in order is passed on without a copy. One that is early is copied; behind all others that wait it is
    /// appended, otherwise it walks the stream's pieces.
    #[inline]
    pub fn segment(
        &mut self,
        stream: &mut Stream,
        sequence: u32,
        payload: &[u8],
        sink: &mut impl FnMut(Chunk<'_>),
    ) {
        if payload.is_empty() {
            return;
        }
        if !stream.is_started {
            *stream = Stream::starting_at(sequence);
        }
        if sequence == stream.next && stream.head == NONE {
            return self.deliver(stream, payload, sink);
        }
        self.out_of_order(stream, sequence, payload, sink);
    }

    fn out_of_order(
        &mut self,
        stream: &mut Stream,
        mut sequence: u32,
        mut payload: &[u8],
        sink: &mut impl FnMut(Chunk<'_>),
    ) {
        if distance(sequence, stream.next) > FARTHEST {
            return self.events.add(Event::FarAhead, payload.len() as u64);
        }
        let mut has_waited = false;
        loop {
            // Only what the stream has not passed.
            let passed = distance(sequence, stream.next).min(0).unsigned_abs();
            let Some(rest) = payload.get(passed as usize..).filter(|rest| !rest.is_empty()) else {
                return self.events.add(Event::Repeated, payload.len() as u64);
            };
            self.events.add(Event::Repeated, u64::from(passed));
            (sequence, payload) = (sequence.wrapping_add(passed), rest);
            let is_due = sequence == stream.next;
            let room_before_head = self.pieces.get(stream.head).map(|head| distance(head.sequence, sequence));
            if is_due
                && room_before_head.is_none_or(|room| payload.len() <= room.max(0).unsigned_abs() as usize)
            {
                self.deliver(stream, payload, sink);
                return self.drain(stream, sink);
            }
            let Err(cause) = self.insert(stream, sequence, payload) else {
                if !is_due && !has_waited {
                    self.events.count(Event::Waited);
                }
                return self.drain(stream, sink);
            };
            has_waited = true;
            // What cannot wait is due now: the stream gives up its first hole.
            match self.pieces.get(stream.head).map(|head| head.sequence) {
                Some(head) if distance(head, sequence) <= 0 || is_due => {
                    if is_due {
                        // Only its part before the first piece; the rest comes back with the hole closed.
                        let room = distance(head, sequence).max(0).unsigned_abs() as usize;
                        let (now, _) = payload.split_at(room.min(payload.len()));
                        self.deliver(stream, now, sink);
                    }
                    self.skip(stream, head, cause, sink);
                    self.drain(stream, sink);
                }
                _ => {
                    self.skip(stream, sequence, cause, sink);
                }
            }
        }
    }

    /// The receiver has acknowledged everything before `ack`: if pieces wait before it, the bytes before them do not come any
    /// more.
    #[inline]
    pub fn acknowledged(&mut self, stream: &mut Stream, ack: u32, sink: &mut impl FnMut(Chunk<'_>)) {
        while let Some(head) = self.pieces.get(stream.head).map(|head| head.sequence) {
            if distance(ack, head) <= 0 {
                return;
            }
            self.skip(stream, head, GapCause::Acknowledged, sink);
            self.drain(stream, sink);
        }
    }

    /// The connection has ended: delivers all that waits, with gaps.
    pub fn finish(&mut self, stream: &mut Stream, sink: &mut impl FnMut(Chunk<'_>)) {
        while let Some(head) = self.pieces.get(stream.head).map(|head| head.sequence) {
            self.skip(stream, head, GapCause::Ended, sink);
            self.drain(stream, sink);
        }
    }

    /// Drops what waits.
    pub fn discard(&mut self, stream: &mut Stream) {
        self.finish(stream, &mut |_| ());
    }

    /// Delivers data that is [due](Stream::is_due).
    #[inline]
    pub(crate) fn deliver(&mut self, stream: &mut Stream, bytes: &[u8], sink: &mut impl FnMut(Chunk<'_>)) {
        if bytes.is_empty() {
            return;
        }
        sink(Chunk::Data { offset: stream.offset, bytes });
        stream.offset += bytes.len() as u64;
        stream.next = stream.next.wrapping_add(bytes.len() as u32);
        self.events.add(Event::Delivered, bytes.len() as u64);
    }

    /// Announces a gap up to a sequence number, unless there is none.
    fn skip(&mut self, stream: &mut Stream, to: u32, cause: GapCause, sink: &mut impl FnMut(Chunk<'_>)) {
        let len = u64::from(distance(to, stream.next).max(0).unsigned_abs());
        if len == 0 {
            return;
        }
        sink(Chunk::Gap(Gap { offset: stream.offset, len, cause }));
        self.gaps.count(cause);
        self.events.add(Event::Missing, len);
        stream.offset += len;
        stream.missing += len;
        stream.next = to;
    }

    /// Delivers the pieces that are due.
    fn drain(&mut self, stream: &mut Stream, sink: &mut impl FnMut(Chunk<'_>)) {
        while self.pieces.get(stream.head).is_some_and(|head| head.sequence == stream.next) {
            let Some(piece) = self.pieces.take(stream.head) else { return };
            stream.head = piece.next;
            if stream.head == NONE {
                stream.tail = NONE;
            }
            stream.waiting -= piece.len() + PIECE_COST;
            stream.pieces -= 1;
            self.deliver(stream, &piece.bytes, sink);
        }
    }

    /// Stores the parts of a payload that no piece covers. On an error some parts may be stored.
    fn insert(&mut self, stream: &mut Stream, mut at: u32, mut rest: &[u8]) -> Result<(), GapCause> {
        let (mut before, mut piece) = (NONE, stream.head);
        if self.pieces.get(stream.tail).is_some_and(|tail| distance(at, tail.end()) >= 0) {
            (before, piece) = (stream.tail, NONE);
        }
        while !rest.is_empty() {
            let Some(next) = self.pieces.get_mut(piece) else {
                return self.link(stream, before, NONE, at, rest);
            };
            let ahead = distance(next.sequence, at);
            let taken = if ahead > 0 {
                let len = rest.len().min(ahead.unsigned_abs() as usize);
                let (part, _) = rest.split_at(len);
                self.link(stream, before, piece, at, part)?;
                before = self.after(stream, before);
                len
            } else {
                let offset = ahead.unsigned_abs() as usize;
                let kept = next.bytes.get_mut(offset..).unwrap_or_default();
                let taken = rest.len().min(kept.len());
                (before, piece) = (piece, next.next);
                let differing = overlap(kept, rest, self.config.overlap);
                self.events.add(Event::Conflicting, differing);
                self.events.add(Event::Overlapped, taken as u64 - differing);
                taken
            };
            rest = rest.get(taken..).unwrap_or_default();
            at = at.wrapping_add(taken as u32);
        }
        Ok(())
    }

    fn after(&self, stream: &Stream, piece: u32) -> u32 {
        self.pieces.get(piece).map_or(stream.head, |piece| piece.next)
    }

    /// Stores a piece between two.
    fn link(
        &mut self,
        stream: &mut Stream,
        before: u32,
        next: u32,
        sequence: u32,
        bytes: &[u8],
    ) -> Result<(), GapCause> {
        let cost = bytes.len() as u64 + u64::from(PIECE_COST);
        if u64::from(stream.waiting) + cost > u64::from(self.config.stream_bytes)
            || stream.pieces >= self.config.stream_pieces
        {
            return Err(GapCause::StreamLimit);
        }
        if self.pieces.used_bytes() + cost > self.config.total_bytes {
            return Err(GapCause::TotalLimit);
        }
        let at = self.pieces.add(sequence, bytes, next);
        match self.pieces.get_mut(before) {
            Some(before) => before.next = at,
            None => stream.head = at,
        }
        if next == NONE {
            stream.tail = at;
        }
        stream.waiting += cost as u32; // at most the limit
        stream.pieces += 1;
        Ok(())
    }
}

/// Applies the policy to bytes that came twice. Returns how many of them differ.
fn overlap(kept: &mut [u8], new: &[u8], policy: Overlap) -> u64 {
    let mut differing = 0;
    for (kept, new) in kept.iter_mut().zip(new) {
        if kept != new {
            differing += 1;
            if policy == Overlap::LastWins {
                *kept = *new;
            }
        }
    }
    differing
}
