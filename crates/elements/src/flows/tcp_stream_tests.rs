//! Streams against the obvious twin, and what elements behind `TCPStream` see.

use crate::columns::{FlowRecord, StreamPart};
use crate::rig::{Rig, ipv4_of, ipv6_of};
use proptest::prelude::*;
use scalebricks_flows::Direction;
use scalebricks_flows::reassembly::GapCause;
use scalebricks_flows::tracker::EndCause;
use scalebricks_graph::{Builder, Control, Element, Frame, Handle, Out, SlotList, element};
use scalebricks_io::Packet;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, parse_ip, transport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Where both endpoints' numbers wrap within the first bytes, and elsewhere.
const FIRST: [u32; 2] = [u32::MAX - 20, 1 << 31];

/// A segment behind 14 bytes that stand for Ethernet: `at` is the offset in its stream, from which the SYN is 1 away.
fn segment(is_v6: bool, back: bool, at: i32, flags: u8, payload: &[u8]) -> Vec<u8> {
    segment_of(9, is_v6, back, (at, 0), flags, payload)
}

/// The same of another client's port, with an acknowledgment up to an offset.
fn segment_of(
    port: u16,
    is_v6: bool,
    back: bool,
    (at, acked): (i32, i32),
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let [own, peer] = if back { [FIRST[1], FIRST[0]] } else { FIRST };
    let ports = if back { [80, port] } else { [port, 80] };
    let mut tcp = ports.map(u16::to_be_bytes).concat();
    tcp.extend_from_slice(&own.wrapping_add_signed(at).to_be_bytes());
    let ack = if flags & ACK == 0 { 0 } else { peer.wrapping_add_signed(acked) };
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    let mut packet = if is_v6 {
        let swap = |header: &mut scalebricks_wire::ipv6::Ipv6Header| {
            header.next_header = 6;
            if back {
                std::mem::swap(&mut header.src, &mut header.dst);
            }
        };
        ipv6_of(swap, &tcp)
    } else {
        let swap = |header: &mut scalebricks_wire::ipv4::Ipv4Header| {
            header.protocol = 6;
            if back {
                std::mem::swap(&mut header.src, &mut header.dst);
            }
        };
        ipv4_of(swap, &tcp)
    };
    let ip = parse_ip(&packet).unwrap();
    let l4 = usize::from(ip.summary.l4_offset);
    let sum = checksum::upper_layer(ip.summary.src, ip.summary.dst, 6, ip.l4()).unwrap();
    packet[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
    [if back { *b"from the right" } else { *b"from the left " }.as_slice(), &packet].concat()
}

fn handshake(is_v6: bool) -> [Vec<u8>; 3] {
    [
        segment(is_v6, false, -1, SYN, b""),
        segment(is_v6, true, -1, SYN | ACK, b""),
        segment(is_v6, false, 0, ACK, b""),
    ]
}

type Places = Arc<Mutex<Vec<(FlowRecord, StreamPart)>>>;

element! {
    /// Reads the columns.
    struct Reader as "Reader" { places: Places, part: Handle<StreamPart>, flow: Handle<FlowRecord>, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", }
    reads { StreamPart, FlowRecord, }
    binds { part, flow, }
}

impl Control for Reader {}

impl Element<Packet> for Reader {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.iter() {
            let place = (frame.column(self.flow)[slot], frame.column(self.part)[slot]);
            self.places.lock().unwrap().push(place);
        }
        out.all(0, batch);
    }
}

struct Bench {
    rig: Rig,
    places: Places,
}

fn fill(args: &[&str], places: &Places, builder: &mut Builder<Packet>) {
    let args: Vec<&str> = ["14", "FLOWS 1000"].iter().chain(args).copied().collect();
    builder.declare("s", "TCPStream", &args);
    builder
        .add("reader", Reader { places: places.clone(), part: Handle::default(), flow: Handle::default() });
    builder.chain(&["in", "s", "reader", "out0"]).connect("s", 1, "out1", 0);
}

/// What left by output 0.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Stream {
    bytes: Vec<u8>,
    missing: u64,
    flags: u8,
    begins: usize,
    end: Option<EndCause>,
}

impl Bench {
    fn new(args: &[&str]) -> Self {
        Self::with_buffers(1_000, args)
    }

    fn with_buffers(buffers: usize, args: &[&str]) -> Self {
        let places = Places::default();
        let rig = Rig::with_buffers(buffers, 2, |builder| fill(args, &places, builder)).unwrap();
        Self { rig, places }
    }

    fn send(&mut self, packets: impl IntoIterator<Item = Vec<u8>>) -> &mut Self {
        self.rig.send(packets);
        for _ in 0..40 {
            self.rig.turn();
        }
        self
    }

    /// The streams of all connections, by the client's port and direction. Each packet must be right, and go on where the one
    /// before has ended.
    fn streams(&mut self) -> BTreeMap<(u16, bool), Stream> {
        let mut all: BTreeMap<(u16, bool), Stream> = BTreeMap::new();
        let places = std::mem::take(&mut *self.places.lock().unwrap());
        let packets = self.rig.noted(0);
        assert_eq!(packets.len(), places.len());
        for ((packet, meta), (FlowRecord(flow), place)) in packets.iter().zip(places) {
            let ip = parse_ip(&packet[14..]).unwrap();
            assert!(!ip.summary.is_ipv4() || ipv4_header_checksum_ok(ip.bytes()));
            let (src, dst) = (ip.summary.src, ip.summary.dst);
            assert_eq!(checksum::upper_layer(src, dst, 6, ip.l4()), Some(0));
            assert_eq!(packet.len(), 14 + ip.bytes().len(), "no padding");
            let tcp = transport::Tcp::parse(ip.l4()).unwrap();
            let back = tcp.src_port() == 80;
            let link = if back { b"from the right" } else { b"from the left " };
            assert_eq!(&packet[..14], link);
            assert!(meta.l3 == 0 || usize::from(meta.l3) == 14, "{meta:?}");
            let port = if back { tcp.dst_port() } else { tcp.src_port() };
            let stream = all.entry((port, back)).or_default();
            assert_eq!(stream.end, None, "nothing follows the end");
            if let Some(gap) = place.gap {
                assert_eq!(gap.offset + gap.len, place.offset);
                stream.missing += gap.len;
            }
            assert_eq!(place.offset, stream.bytes.len() as u64 + stream.missing);
            let is_syn = u32::from(tcp.flags().0 & SYN != 0);
            let expected = FIRST[usize::from(back)].wrapping_add(place.offset as u32);
            assert_eq!(tcp.sequence(), expected.wrapping_sub(is_syn), "{place:?}");
            let direction = if back { Direction::Reverse } else { Direction::Forward };
            assert_eq!(flow.unwrap().direction, direction);
            stream.begins += usize::from(place.is_first);
            stream.bytes.extend_from_slice(tcp.payload());
            stream.flags |= tcp.flags().0;
            stream.end = place.end;
        }
        assert!(all.values().all(|stream| stream.begins <= 1));
        all
    }

    /// Both streams of the connection from port 9.
    fn both(&mut self) -> [Stream; 2] {
        let mut streams = self.streams();
        [false, true].map(|back| streams.remove(&(9, back)).unwrap_or_default())
    }

    fn number(&mut self, name: &str) -> u64 {
        self.rig.number("s", name)
    }
}

#[test]
fn segments_in_order_leave_unchanged_and_others_go_aside() {
    for is_v6 in [false, true] {
        let mut bench = Bench::new(&[]);
        let stream = [
            segment(is_v6, false, 0, ACK, b"GET /"),
            segment(is_v6, true, 0, ACK | PSH, b"200"),
            segment(is_v6, true, 3, ACK | FIN, b"!"),
            segment(is_v6, false, 5, ACK | FIN, b""),
        ];
        let [syn, answer, ack] = handshake(is_v6);
        let again = [ack.clone(), answer.clone(), stream[0].clone(), stream[3].clone()];
        bench.rig.send([syn.clone(), answer.clone()].into_iter().chain(stream.clone()).chain(again.clone()));
        bench.rig.turn();
        let expected: Vec<_> = [syn, answer].into_iter().chain(stream).collect();
        let packets = bench.rig.got(0);
        assert_eq!(packets, expected);
        assert_eq!(bench.rig.got(1), again);
        let places: Vec<StreamPart> = bench.places.lock().unwrap().iter().map(|(_, place)| *place).collect();
        assert_eq!(places.iter().map(|place| place.offset).collect::<Vec<_>>(), [0, 0, 0, 0, 3, 5]);
        assert_eq!(
            places.iter().map(|place| place.is_first).collect::<Vec<_>>(),
            [true, true, false, false, false, false]
        );
        let closed = Some(EndCause::Closed);
        assert_eq!(
            places.iter().map(|place| place.end).collect::<Vec<_>>(),
            [None, None, None, None, closed, closed]
        );
        let names = ["flows", "streams_began", "streams_ended", "segments_made", "waiting_bytes"];
        assert_eq!(names.map(|name| bench.number(name)), [1, 2, 2, 0, 0]);
    }
}

#[test]
fn without_a_side_output_packets_are_dropped_by_name() {
    let mut rig = Rig::new(1, |builder| {
        builder.declare("s", "TCPStream", &["14", "FLOWS 1000"]).chain(&["in", "s", "out0"]);
    });
    let [syn, answer, ack] = handshake(false);
    let data = segment(false, false, 0, ACK, b"x");
    let mut wrong = data.clone();
    wrong[14 + 36] ^= 1;
    let blind = segment(false, false, 1_000, RST, b"");
    rig.send([syn, answer, ack, data.clone(), data, wrong, blind, b"x".to_vec()]);
    rig.turn();
    let names = [
        "no_stream_bytes",
        "repeated_segment",
        "transport_checksum",
        "segment_refused",
        "cut_or_malformed_ip",
    ];
    assert_eq!(names.map(|name| rig.number("s", name)), [1; 5]);
    assert_eq!(rig.got(0).len(), 3);
}

/// The obvious twin of a direction: every byte that came, by offset. Bytes leave as soon as all before them have left.
#[derive(Debug, Default)]
struct Twin {
    waiting: BTreeMap<u64, u8>,
    left: Vec<u8>,
}

impl Twin {
    fn segment(&mut self, at: u64, bytes: &[u8], last_wins: bool) {
        for (offset, byte) in (at..).zip(bytes) {
            if offset >= self.left.len() as u64 && (last_wins || !self.waiting.contains_key(&offset)) {
                self.waiting.insert(offset, *byte);
            }
        }
        while let Some(byte) = self.waiting.remove(&(self.left.len() as u64)) {
            self.left.push(byte);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random segmentation, order, repetition and overlap, with conflicting bytes, in both directions and families.
    #[test]
    fn streams_equal_a_map_of_bytes(
        is_v6: bool,
        last_wins: bool,
        lens in [1_usize..600, 1..600],
        cuts in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..24),
        more in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 1_usize..200, any::<u8>()), 0..24),
        draws in proptest::collection::vec(any::<prop::sample::Index>(), 80),
        batch in 1_usize..50,
    ) {
        // Each stream once in pieces, a FIN behind it, and other segments anywhere, perhaps with other bytes.
        let mut segments = Vec::new();
        for (back, len) in [false, true].into_iter().zip(lens) {
            let own = cuts.iter().filter(|(of, _)| *of == back).map(|(_, cut)| cut.index(len));
            let mut borders: Vec<usize> = own.chain([0, len]).collect();
            borders.sort_unstable();
            for border in borders.windows(2).filter(|border| border[0] < border[1]) {
                let bytes: Vec<u8> = (border[0]..border[1]).map(|at| (at * 7) as u8).collect();
                segments.push((back, border[0], bytes, ACK));
            }
            segments.push((back, len, Vec::new(), ACK | FIN));
        }
        for (back, at, extra, change) in more {
            let at = at.index(lens[usize::from(back)]);
            let end = (at + extra).min(lens[usize::from(back)]);
            segments.push((back, at, (at..end).map(|at| (at * 7) as u8 ^ change).collect(), ACK));
        }
        for (at, draw) in draws.iter().enumerate() {
            let (at, other) = (at % segments.len(), draw.index(segments.len()));
            segments.swap(at, other);
        }
        let mut twins = [Twin::default(), Twin::default()];
        let mut bench = Bench::new(&[if last_wins { "OVERLAP last" } else { "OVERLAP first" }]);
        bench.send(handshake(is_v6));
        for segments in segments.chunks(batch) {
            for (back, at, bytes, _) in segments {
                twins[usize::from(*back)].segment(*at as u64, bytes, last_wins);
            }
            bench.rig.send(segments.iter().map(|(back, at, bytes, flags)| {
                segment(is_v6, *back, i32::try_from(*at).unwrap(), *flags, bytes)
            }));
            bench.rig.turn();
            prop_assert_eq!(bench.number("flows"), 1);
        }
        let refused = bench.rig.read("s", "counts").contains("segment_refused");
        prop_assert!(!refused, "{}", bench.rig.read("s", "counts"));
        let streams = bench.both();
        for ((stream, twin), len) in streams.iter().zip(&twins).zip(lens) {
            prop_assert_eq!(&stream.bytes, &twin.left);
            prop_assert_eq!((stream.bytes.len(), stream.missing, stream.begins), (len, 0, 1));
            prop_assert_eq!((stream.end, stream.flags & FIN), (Some(EndCause::Closed), FIN));
        }
        prop_assert_eq!(bench.number("waiting_bytes"), 0);
    }
}

#[test]
fn a_gap_is_announced_when_the_flow_ends() {
    let mut bench = Bench::new(&[]);
    bench.send(handshake(false));
    bench.send([segment(false, false, 0, ACK, b"first"), segment(false, false, 9, ACK, b"later")]);
    assert_eq!(bench.number("segments_copied"), 1);
    bench.rig.write("s", "finish", "").unwrap();
    bench.send([]);
    let places: Vec<_> = bench.places.lock().unwrap().iter().map(|(_, place)| *place).collect();
    let gap = places.iter().find_map(|place| place.gap).unwrap();
    assert_eq!((gap.offset, gap.len, gap.cause), (5, 4, GapCause::Ended));
    let [stream, back] = bench.both();
    assert_eq!((stream.bytes.as_slice(), stream.missing), (&b"firstlater"[..], 4));
    assert_eq!((stream.end, back.end), (Some(EndCause::InputEnded), Some(EndCause::InputEnded)));
    assert_eq!((stream.flags & (FIN | RST), bench.number("gaps")), (0, 1));
    assert_eq!(["flows", "waiting_bytes", "leaving_bytes"].map(|name| bench.number(name)), [0, 0, 0]);
}

#[test]
fn a_hole_that_was_acknowledged_is_a_gap() {
    let mut bench = Bench::new(&["CAPTURE true"]);
    bench.send(handshake(false));
    bench.send([segment(false, false, 4, ACK, b"later"), segment_of(9, false, true, (0, 9), ACK, b"")]);
    let [stream, _] = bench.both();
    assert_eq!((stream.bytes.as_slice(), stream.missing, stream.end), (&b"later"[..], 4, None));
}

#[test]
fn a_reset_ends_both_streams_and_frees_what_waits() {
    let mut bench = Bench::new(&[]);
    bench.send(handshake(false));
    bench.send([segment(false, true, 5, ACK, b"waits"), segment(false, true, 0, RST, b"why")]);
    let [stream, back] = bench.both();
    let reset = Some(EndCause::Reset);
    assert_eq!((stream.bytes.len(), stream.end), (0, reset));
    assert_eq!(
        (back.bytes.as_slice(), back.missing, back.end),
        (&b"waits"[..], 5, reset),
        "not what follows a reset"
    );
    assert_eq!((back.flags & RST, stream.flags & RST), (RST, 0));
    assert_eq!(bench.number("waiting_bytes"), 0);
    // Afterwards nothing passes.
    bench.send([segment(false, true, 0, ACK, b"after")]);
    assert!(bench.rig.got(0).is_empty());
}

#[test]
fn streams_end_with_their_flow_and_free_what_waits() {
    let mut bench = Bench::new(&[]);
    bench.send(handshake(false));
    bench.send([segment(false, false, 5, ACK, b"waits")]);
    assert!(bench.number("waiting_bytes") > 0);
    // No packet comes: the turns alone find flows whose time is over.
    for _ in 0..200 {
        bench.rig.turn_after(Duration::from_secs(60));
    }
    assert_eq!(["flows", "waiting_bytes"].map(|name| bench.number(name)), [0, 0]);
    let [stream, back] = bench.both();
    let over = Some(EndCause::TimedOut);
    assert_eq!((stream.bytes.as_slice(), stream.end, back.end), (&b"waits"[..], over, over));
}

/// More segments than a frame has slots, and buffers for few: all leave in order, and what comes meanwhile behind them.
#[test]
fn a_hole_in_front_of_much_loses_nothing() {
    let mut bench = Bench::with_buffers(170, &[]);
    bench.send(handshake(true));
    let bytes: Vec<u8> = (0..60_000_u32).map(|at| (at / 5) as u8).collect();
    let parts: Vec<(usize, &[u8])> = bytes.chunks(100).enumerate().collect();
    bench.send(
        parts[1..]
            .iter()
            .map(|(at, part)| segment(true, false, 100 * i32::try_from(*at).unwrap(), ACK, part)),
    );
    assert_eq!(bench.number("segments_copied"), 599);
    assert!(bench.number("waiting_bytes") > 60_000);
    bench.rig.send([segment(true, false, 0, ACK, parts[0].1)]);
    bench.rig.send([segment(true, false, 60_000, ACK, b"the end"), segment(true, true, 0, ACK, b"back")]);
    bench.rig.turn();
    bench.send([segment(true, false, 60_007, ACK | FIN, b"")]);
    let [stream, back] = bench.both();
    assert_eq!(stream.bytes, [&bytes[..], b"the end"].concat());
    assert_eq!((stream.end, back.bytes.as_slice()), (Some(EndCause::Closed), &b"back"[..]));
    assert_eq!(
        ["waiting_bytes", "leaving_bytes", "stream_output_full"].map(|name| bench.number(name)),
        [0; 3]
    );
}

#[test]
fn many_streams_that_end_at_once_lose_nothing() {
    let mut bench = Bench::with_buffers(170, &[]);
    for port in 100..400 {
        let of = |back, at, acked, flags, payload: &[u8]| {
            segment_of(port, false, back, (at, acked), flags, payload)
        };
        bench.send([of(false, -1, 0, SYN, b""), of(true, -1, 0, SYN | ACK, b""), of(false, 0, 0, ACK, b"")]);
        bench.send([of(false, 3, 0, ACK, &port.to_be_bytes())]);
    }
    bench.streams();
    bench.rig.write("s", "finish", "").unwrap();
    // While they leave, a new connection begins: its packets come behind.
    bench.send(handshake(false));
    let streams = bench.streams();
    let got = streams.iter().filter(|((port, back), _)| *port != 9 && !back);
    let right = |port: u16, stream: &Stream| stream.bytes == port.to_be_bytes() && stream.missing == 3;
    assert_eq!(got.filter(|((port, _), stream)| right(*port, stream) && stream.end.is_some()).count(), 300);
    assert_eq!(streams[&(9, false)].begins, 1);
    assert_eq!(bench.number("leaving_bytes"), 0);
}

#[test]
fn a_stream_over_its_limit_gives_up_its_first_hole() {
    let mut bench = Bench::new(&["STREAM_MEMORY 1000", "STREAM_PIECES 5", "MEMORY 1500"]);
    bench.send(handshake(false));
    for at in 1..100 {
        bench.send([segment(false, false, 10 * at, ACK, b"12345")]);
        assert!(bench.number("waiting_bytes") <= 1_000);
    }
    assert!(bench.rig.read("s", "counts").contains("gap_stream_limit"));
    bench.rig.write("s", "finish", "").unwrap();
    bench.send([]);
    let [stream, _] = bench.both();
    assert_eq!((stream.bytes.len(), stream.missing), (5 * 99, 10 + 5 * 98));
}

#[test]
fn what_waits_goes_on_in_a_new_configuration() {
    let mut bench = Bench::new(&[]);
    bench.send(handshake(false));
    bench.send([segment(false, false, 3, ACK, b"later")]);
    let places = bench.places.clone();
    bench.rig.replace(|builder| fill(&[], &places, builder));
    assert_eq!(bench.number("flows"), 1);
    bench.send([segment(false, false, 0, ACK, b"now")]);
    assert_eq!(bench.both()[0].bytes, b"nowlater");
}

#[test]
fn a_segment_in_fragments_is_a_part_of_its_stream() {
    let mut bench = Bench::new(&[]);
    bench.send(handshake(false));
    let bytes: Vec<u8> = (0..3_000_u32).map(|at| (at / 3) as u8).collect();
    let whole = segment(false, false, 0, ACK | FIN, &bytes);
    let data = &whole[34..];
    let parts = [(0, 1_400), (1_400, 2_800), (2_800, data.len())].map(|(from, to)| {
        let change = |header: &mut scalebricks_wire::ipv4::Ipv4Header| {
            header.protocol = 6;
            header.more_fragments = to < data.len();
            header.fragment_units = (from / 8) as u16;
        };
        [&b"from the left "[..], &ipv4_of(change, &data[from..to])].concat()
    });
    let [a, b, c] = parts;
    bench.send([c, a.clone(), b]);
    let [stream, _] = bench.both();
    assert_eq!(stream.bytes, bytes, "in two segments, as long as a buffer");
    assert_eq!((stream.end, stream.flags & FIN), (Some(EndCause::Closed), FIN));
    assert_eq!((bench.rig.got(1).len(), bench.number("segments_copied")), (3, 1));
    assert_eq!(bench.number("segments_made"), 3);
}

#[test]
fn data_on_a_syn_and_streams_picked_up_midway() {
    let mut bench = Bench::new(&[]);
    let [_, answer, ack] = handshake(false);
    bench.send([segment(false, false, -1, SYN, b"fast"), answer, ack]);
    bench.send([segment(false, false, 4, ACK, b" open")]);
    assert_eq!(bench.both()[0].bytes, b"fast open");
    let midway = [segment(false, false, 0, ACK, b"midway"), segment(false, true, 0, ACK, b"answer")];
    let mut bench = Bench::new(&[]);
    bench.send(midway.clone());
    assert_eq!((bench.rig.got(0).len(), bench.number("flows")), (0, 0));
    let mut bench = Bench::new(&["PICKUP true"]);
    bench.send(midway);
    let [stream, back] = bench.both();
    assert_eq!((stream.bytes.as_slice(), back.bytes.as_slice()), (&b"midway"[..], &b"answer"[..]));
    assert_eq!((stream.begins, back.begins), (1, 1));
}

/// A SYN in fragments leaves anew, before its data.
#[test]
fn the_first_packet_of_a_stream_is_its_syn() {
    let mut bench = Bench::new(&[]);
    let syn = segment(false, false, -1, SYN, b"data that comes with a SYN");
    let data = &syn[34..];
    bench.send([(0, 24), (24, data.len())].map(|(from, to)| {
        let change = |header: &mut scalebricks_wire::ipv4::Ipv4Header| {
            header.protocol = 6;
            header.more_fragments = to < data.len();
            header.fragment_units = (from / 8) as u16;
        };
        [&b"from the left "[..], &ipv4_of(change, &data[from..to])].concat()
    }));
    let places: Vec<_> =
        bench.places.lock().unwrap().iter().map(|(_, place)| (place.offset, place.is_first)).collect();
    assert_eq!(places, [(0, true), (0, false)]);
    let [stream, _] = bench.both();
    assert_eq!((stream.bytes.as_slice(), stream.flags & SYN), (&b"data that comes with a SYN"[..], SYN));
}

/// Half-open connections: each stream that began ends, and memory is bounded.
#[test]
fn a_flood_of_syns_is_bounded() {
    let mut bench = Bench::new(&["YOUNG 20"]);
    for ports in 0..20_u16 {
        let syn = |port| segment_of(1_000 + 100 * ports + port, false, false, (-1, 0), SYN, b"");
        bench.send((0..100).map(syn));
        assert!(bench.number("flows") <= 20);
    }
    bench.rig.write("s", "finish", "").unwrap();
    bench.send([]);
    let streams = bench.streams();
    assert_eq!(streams.len(), 2_000);
    assert!(streams.values().all(|stream| stream.end.is_some() && stream.begins == 1));
    assert_eq!(["streams_began", "streams_ended"].map(|name| bench.number(name)), [2_000, 2_000]);
}

/// As with half-open connections, what waits in many streams has one limit.
#[test]
fn the_memory_of_all_streams_is_bounded() {
    let mut bench = Bench::new(&["PICKUP true", "MEMORY 5000", "YOUNG 500"]);
    for port in 1_000..1_200 {
        let of = |at, payload: &[u8]| segment_of(port, false, false, (at, 0), ACK, payload);
        bench.send([of(0, b"a"), of(100, &[7; 300])]);
        assert!(bench.number("waiting_bytes") <= 5_000);
    }
    assert!(bench.rig.read("s", "counts").contains("gap_total_limit"));
    let streams = bench.streams();
    let waiting = streams.values().filter(|stream| stream.bytes.len() == 1).count();
    assert!(waiting <= 5_000 / 300, "{waiting}");
}

#[test]
fn impossible_parameters_are_refused() {
    for wrong in ["FLOWS 0", "YOUNG 0", "OFFSET 23", "OVERLAP both"] {
        let built = Rig::with_buffers(5, 1, |builder| {
            builder.declare("s", "TCPStream", &[wrong]).chain(&["in", "s", "out0"]);
        });
        assert!(built.is_err(), "{wrong}");
    }
}
