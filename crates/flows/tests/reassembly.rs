//! Reassembly against a map from offsets to bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use scalebricks_flows::reassembly::{
    Chunk, Config, Event, Gap, GapCause, Overlap, PIECE_COST, Reassembler, Stream,
};
use std::collections::BTreeMap;

/// What left a stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Output {
    bytes: BTreeMap<u64, u8>,
    /// Where the next chunk must begin.
    at: u64,
    gaps: Vec<Gap>,
}

impl Output {
    fn take(&mut self, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Data { offset, bytes } => {
                assert_eq!(offset, self.at, "a chunk out of order");
                assert!(!bytes.is_empty());
                self.bytes.extend((offset..).zip(bytes.iter().copied()));
                self.at += bytes.len() as u64;
            }
            Chunk::Gap(gap) => {
                assert_eq!(gap.offset, self.at, "a gap out of order");
                assert!(gap.len > 0);
                self.at += gap.len;
                self.gaps.push(gap);
            }
        }
    }
}

/// The obvious twin: every byte that came, by offset. Bytes leave as soon as all before them have left.
#[derive(Debug, Default)]
struct Twin {
    waiting: BTreeMap<u64, u8>,
    left: BTreeMap<u64, u8>,
    next: u64,
}

impl Twin {
    fn segment(&mut self, offset: i64, bytes: &[u8], overlap: Overlap) {
        for (offset, byte) in (offset..).zip(bytes) {
            let Ok(offset) = u64::try_from(offset) else { continue };
            if offset < self.next {
                continue;
            }
            match overlap {
                Overlap::FirstWins => _ = self.waiting.entry(offset).or_insert(*byte),
                Overlap::LastWins => _ = self.waiting.insert(offset, *byte),
            }
        }
        self.leave();
    }

    fn leave(&mut self) {
        while let Some(byte) = self.waiting.remove(&self.next) {
            self.left.insert(self.next, byte);
            self.next += 1;
        }
    }

    fn finish(&mut self) {
        while let Some((&first, _)) = self.waiting.first_key_value() {
            self.next = first;
            self.leave();
        }
    }
}

fn policies() -> impl Strategy<Value = Overlap> {
    prop_oneof![Just(Overlap::FirstWins), Just(Overlap::LastWins)]
}

/// Segments around the start of a stream: offset, which may be negative, and bytes.
fn segments() -> impl Strategy<Value = Vec<(i64, Vec<u8>)>> {
    vec((-10_i64..120, vec(any::<u8>(), 0..30)), 0..40)
}

proptest! {
    /// With room for everything, what leaves is what leaves the twin, whatever the order, repetition, overlap and wrap.
    #[test]
    fn equals_a_map_of_bytes(start: u32, segments in segments(), overlap in policies()) {
        let mut reassembler = Reassembler::new(Config { overlap, ..Config::default() });
        let mut stream = Stream::starting_at(start);
        let (mut output, mut twin) = (Output::default(), Twin::default());
        for (offset, bytes) in &segments {
            let sequence = start.wrapping_add_signed(*offset as i32);
            reassembler.segment(&mut stream, sequence, bytes, &mut |chunk: Chunk<'_>| output.take(chunk));
            twin.segment(*offset, bytes, overlap);
            prop_assert_eq!(output.at, twin.next);
            prop_assert_eq!(stream.delivered(), output.bytes.len() as u64);
        }
        prop_assert_eq!(&output.bytes, &twin.left);
        reassembler.finish(&mut stream, &mut |chunk: Chunk<'_>| output.take(chunk));
        twin.finish();
        prop_assert_eq!(&output.bytes, &twin.left);
        prop_assert!(output.gaps.iter().all(|gap| gap.cause == GapCause::Ended));
        prop_assert_eq!(output.gaps.iter().map(|gap| gap.len).sum::<u64>(), stream.missing());
        prop_assert_eq!(reassembler.waiting_bytes(), 0);
        let came: usize = segments.iter().map(|(_, bytes)| bytes.len()).sum();
        let events = reassembler.events();
        let counted = [Event::Delivered, Event::Repeated, Event::Overlapped, Event::Conflicting];
        prop_assert_eq!(counted.map(|event| events.get(event)).iter().sum::<u64>(), came as u64);
    }

    /// With little room, everything that left is right, in order, and nothing is missing without a gap.
    #[test]
    fn is_bounded_and_announces_what_is_missing(
        steps in vec((0_usize..3, -10_i64..300, vec(any::<u8>(), 0..30)), 0..150),
        overlap in policies(),
        stream_bytes in 0_u32..800,
        total_bytes in 0_u64..1_200,
        stream_pieces in 0_u16..6,
    ) {
        let config = Config { overlap, stream_bytes, stream_pieces, total_bytes };
        let mut reassembler = Reassembler::new(config);
        let mut streams = [Stream::starting_at(7), Stream::starting_at(u32::MAX - 20), Stream::starting_at(1 << 31)];
        let mut outputs: [Output; 3] = Default::default();
        let mut came: [BTreeMap<u64, Vec<u8>>; 3] = Default::default();
        for (of, offset, bytes) in &steps {
            let start = [7, u32::MAX - 20, 1 << 31][*of];
            let output = &mut outputs[*of];
            let sequence = u32::wrapping_add_signed(start, *offset as i32);
            reassembler.segment(&mut streams[*of], sequence, bytes, &mut |chunk: Chunk<'_>| output.take(chunk));
            for (offset, byte) in (*offset..).zip(bytes) {
                if let Ok(offset) = u64::try_from(offset) {
                    came[*of].entry(offset).or_default().push(*byte);
                }
            }
            prop_assert!(reassembler.waiting_bytes() <= total_bytes);
            prop_assert!(streams[*of].waiting() <= stream_bytes);
            let waiting: u32 = streams.iter().map(Stream::waiting).sum();
            prop_assert_eq!(u64::from(waiting), reassembler.waiting_bytes());
        }
        for ((stream, output), came) in streams.iter_mut().zip(&mut outputs).zip(&came) {
            reassembler.finish(stream, &mut |chunk: Chunk<'_>| output.take(chunk));
            for (offset, byte) in &output.bytes {
                prop_assert!(came[offset].contains(byte));
            }
            prop_assert_eq!(stream.delivered() + stream.missing(), output.at);
            // Nothing waits, and everything that came was passed.
            prop_assert!(came.last_key_value().is_none_or(|(last, _)| *last < output.at));
        }
        prop_assert_eq!(reassembler.waiting_bytes(), 0);
        let gaps: u64 = outputs.iter().map(|output| output.gaps.len() as u64).sum();
        prop_assert_eq!(reassembler.gaps().total(), gaps);
    }
}

/// A reassembler with one stream that starts at 0.
struct Rig {
    reassembler: Reassembler,
    stream: Stream,
    output: Output,
}

impl Rig {
    fn new(config: Config) -> Self {
        let (reassembler, stream) = (Reassembler::new(config), Stream::starting_at(0));
        Self { reassembler, stream, output: Output::default() }
    }

    fn segment(&mut self, sequence: u32, bytes: &[u8]) -> &mut Self {
        let output = &mut self.output;
        self.reassembler
            .segment(&mut self.stream, sequence, bytes, &mut |chunk: Chunk<'_>| output.take(chunk));
        self
    }

    fn text(&self) -> Vec<u8> {
        self.output.bytes.values().copied().collect()
    }
}

#[test]
fn the_policy_decides_between_bytes_that_wait() {
    for (overlap, expected) in [(Overlap::FirstWins, b"abFIRST-x"), (Overlap::LastWins, b"abFxxxx-x")] {
        let mut rig = Rig::new(Config { overlap, ..Config::default() });
        rig.segment(2, b"FIRST").segment(3, b"xxxx-x").segment(0, b"ab");
        assert_eq!(rig.text(), expected);
        assert_eq!(rig.reassembler.events().get(Event::Conflicting), 4);
    }
}

#[test]
fn a_hole_that_was_acknowledged_is_a_gap() {
    let mut rig = Rig::new(Config::default());
    rig.segment(10, b"later");
    let Rig { reassembler, stream, output } = &mut rig;
    // The receiver has acknowledged the hole's first half only, then up to the piece, then some of it.
    for ack in [5, 10] {
        reassembler.acknowledged(stream, ack, &mut |chunk: Chunk<'_>| output.take(chunk));
        assert_eq!(output.at, 0);
    }
    reassembler.acknowledged(stream, 11, &mut |chunk: Chunk<'_>| output.take(chunk));
    assert_eq!(output.gaps, [Gap { offset: 0, len: 10, cause: GapCause::Acknowledged }]);
    assert_eq!(rig.text(), b"later");
    rig.segment(0, b"too late");
    assert_eq!(rig.reassembler.events().get(Event::Repeated), 8);
}

#[test]
fn segments_beyond_any_window_are_not_delivered() {
    let mut rig = Rig::new(Config::default());
    rig.segment((1 << 30) + 1, b"far").segment(1 << 31, b"half way around").segment(0, b"near");
    assert_eq!(rig.text(), b"near");
    assert_eq!(rig.reassembler.events().get(Event::FarAhead), 3);
    assert_eq!(rig.reassembler.events().get(Event::Repeated), 15);
}

#[test]
fn single_bytes_in_every_second_place_do_not_exceed_the_limits() {
    let config = Config { stream_pieces: 100, ..Config::default() };
    let mut rig = Rig::new(config);
    for at in 0..10_000 {
        rig.segment(2 * at + 1, b"x");
        assert!(rig.reassembler.waiting_bytes() <= 100 * u64::from(PIECE_COST + 1));
    }
    assert_eq!(rig.reassembler.gaps().get(GapCause::StreamLimit), 9_900);
    assert_eq!(rig.text().len(), 9_900);
}
