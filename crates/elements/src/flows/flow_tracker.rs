//! `FlowTracker`.

use crate::columns::FlowRecord;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use arrayvec::ArrayVec;
use scalebricks_flows::tcp::{self, Vantage};
use scalebricks_flows::tracker::{Config, Packet, Tables, Tracker, Untracked};
use scalebricks_flows::{Named, reassembly};
use scalebricks_graph::{
    Class, Control, DropId, Element, Frame, Handle, HandlerId, Out, SLOTS, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;
use std::hash::{BuildHasher, RandomState};

/// Records that are looked at for expiry per packet.
const SWEEP: usize = 4;

element! {
    /// Finds the flow of each IPv4 or IPv6 packet with one lookup, begins it if it is new, and sets the flow annotation.
    /// TCP segments are judged by the connection's state (RFC 9293, RFC 5961, RFC 7323); other protocols are flows by
    /// timeouts. A fragment belongs to a flow once its packet is complete. Unanswered flows and half-open connections have
    /// a limit of their own: the oldest goes first. One tracker per worker: both directions of a flow must come to the
    /// same one.
    pub struct FlowTracker as "FlowTracker" {
        tracker: Tracker, offset: usize, flow: Handle<FlowRecord>, side: SideOutput,
    }
    inputs { push "in": "Packets with an IP header.", }
    outputs {
        push "out": "Packets of flows.",
        push "untracked" [Optional]: "Packets of no flow, and segments that are refused; dropped if unconnected.",
    }
    params FlowTrackerParams {
        /// Offset of the IP header.
        offset: u16 = 0,
        /// Most flows of each IP version.
        flows: u32 = 65_536,
        /// Most half-open and unanswered flows of each IP version.
        young: u32 = 8_192,
        /// Whether to track connections whose handshake was not seen.
        pickup: bool = false,
        /// Whether packets may be missing, as in a capture: then acknowledgments of unseen data are believed.
        capture: bool = false,
        /// Whether to refuse packets with wrong checksums.
        checksums: bool = true,
        /// Whether to put streams in order, to count their bytes and gaps.
        streams: bool = false,
    }
    example { "14", }
    writes { FlowRecord on "out", }
    drops {
        MALFORMED_IP = drops::MALFORMED_IP,
        IP_CHECKSUM = drops::IP_CHECKSUM,
        FRAGMENT_HELD = drops::FRAGMENT_HELD,
        FRAGMENT_REFUSED = drops::FRAGMENT_REFUSED,
        MALFORMED_TRANSPORT = drops::MALFORMED_TRANSPORT,
        TRANSPORT_CHECKSUM = drops::TRANSPORT_CHECKSUM,
        SEGMENT = drops::SEGMENT_REFUSED,
        UNRELATED = drops::UNRELATED_ERROR,
        FULL = drops::FLOWS_FULL,
    }
    counters { BEGAN = "flows_began": "Flows that began.", }
    handlers {
        read FLOWS = "flows": "Flows now.",
        read YOUNG = "young": "Half-open and unanswered flows now.",
        read COUNTS = "counts": "Counters of untracked packets, ended flows, unusual segments and streams that are not zero, one per line.",
    }
    binds { flow, side, }
    keeps { tracker, }
}

impl Class for FlowTracker {
    fn make(params: FlowTrackerParams) -> Result<Self, String> {
        if params.flows == 0 || params.young == 0 {
            return Err("FLOWS and YOUNG must be at least 1".to_owned());
        }
        let vantage = if params.capture { Vantage::Capture } else { Vantage::InPath };
        let config = Config {
            tcp: tcp::Config { vantage, pick_up: params.pickup, ..tcp::Config::default() },
            reassembly: params.streams.then(reassembly::Config::default),
            verify_checksums: params.checksums,
            flows: params.flows,
            grows: false,
            young_flows: params.young,
            ..Config::default()
        };
        let random = |number: u8| RandomState::new().hash_one(number);
        let tracker = Tracker::new(&config, HashSeed::new(random(0), random(1)), Tables::default())
            .map_err(|error| error.to_string())?;
        Ok(Self {
            tracker,
            offset: usize::from(params.offset),
            flow: Handle::default(),
            side: SideOutput::default(),
        })
    }
}

impl FlowTracker {
    const fn reason(untracked: Untracked) -> DropId {
        match untracked {
            Untracked::MalformedIp => Self::MALFORMED_IP,
            Untracked::IpChecksum => Self::IP_CHECKSUM,
            Untracked::FragmentHeld => Self::FRAGMENT_HELD,
            Untracked::FragmentRefused => Self::FRAGMENT_REFUSED,
            Untracked::MalformedTransport => Self::MALFORMED_TRANSPORT,
            Untracked::TransportChecksum => Self::TRANSPORT_CHECKSUM,
            Untracked::Segment => Self::SEGMENT,
            Untracked::UnrelatedError => Self::UNRELATED,
            Untracked::TableFull | Untracked::NotAllowed => Self::FULL, // it allows all
        }
    }
}

/// Counters that are not zero, one per line.
fn lines<E: Named>(tally: &scalebricks_flows::Tally<E>) -> impl Iterator<Item = String> {
    tally.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}\t{count}"))
}

/// Counters of a tracker that are not zero, one per line.
pub(crate) fn counts(tracker: &Tracker) -> String {
    let streams = tracker.reassembler();
    let all = lines(tracker.untracked())
        .chain(lines(tracker.ends()))
        .chain(lines(tracker.anomalies()))
        .chain(streams.into_iter().flat_map(|streams| lines(streams.events())))
        .chain(streams.into_iter().flat_map(|streams| lines(streams.gaps())))
        .chain(lines(tracker.defragmenter().refusals()));
    all.collect::<Vec<_>>().join("\n")
}

impl Control for FlowTracker {
    fn read(&self, handler: HandlerId) -> String {
        let tracker = &self.tracker;
        if handler == Self::FLOWS {
            tracker.flows().to_string()
        } else if handler == Self::YOUNG {
            tracker.young_flows().to_string()
        } else {
            counts(tracker)
        }
    }
}

impl<P: PacketBuf> Element<P> for FlowTracker {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (now, count) = (out.now(), batch.len());
        let (tracker, offset) = (&mut self.tracker, self.offset);
        let mut results = [Err(Untracked::MalformedIp); SLOTS];
        let packets: ArrayVec<Packet<'_>, SLOTS> = batch
            .iter()
            .map(|slot| Packet {
                bytes: frame.packet(slot).data().get(offset..).unwrap_or_default(),
                zone: 0,
                now,
            })
            .collect();
        tracker.track_batch(&packets, &mut (), |_, at, tracked, ()| results[at % SLOTS] = tracked);
        drop(packets);
        tracker.sweep(now, SWEEP * count, &mut ());
        for (slot, tracked) in batch.drain().zip(results) {
            match tracked {
                Ok(tracked) => {
                    out.count(Self::BEGAN, u64::from(tracked.is_new));
                    frame.column_mut(self.flow)[&slot] = FlowRecord(Some(tracked));
                    out.push(0, slot);
                }
                Err(untracked) => self.side.send(slot, Self::reason(untracked), out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4_of};
    use std::time::Duration;

    /// A segment of port 9 to port 80, or back, behind two other bytes.
    fn segment(back: bool, sequence: u32, ack: u32, flags: u8) -> Vec<u8> {
        let ports: [u8; 4] = if back { [0, 80, 0, 9] } else { [0, 9, 0, 80] };
        let mut tcp = ports.to_vec();
        tcp.extend_from_slice(&sequence.to_be_bytes());
        tcp.extend_from_slice(&ack.to_be_bytes());
        tcp.extend_from_slice(&[0x50, flags, 1, 0, 0, 0, 0, 0]);
        let packet = ipv4_of(
            |header| {
                header.protocol = 6;
                if back {
                    std::mem::swap(&mut header.src, &mut header.dst);
                }
            },
            &tcp,
        );
        [b"xx", &packet[..]].concat()
    }

    fn rig(args: &'static [&'static str]) -> Rig {
        Rig::new(2, |builder| {
            builder.declare("f", "FlowTracker", args).chain(&["in", "f", "out0"]).connect("f", 1, "out1", 0);
        })
    }

    #[test]
    fn packets_of_flows_pass_and_others_go_aside() {
        let mut rig = rig(&["2", "CHECKSUMS false", "FLOWS 1000"]);
        let handshake = [segment(false, 1, 0, 2), segment(true, 5, 2, 18), segment(false, 2, 6, 16)];
        // A blind reset, and no IP at all.
        rig.send(handshake.iter().cloned().chain([segment(false, 99, 0, 4), b"xxx".to_vec()]));
        rig.turn();
        assert_eq!(rig.got(0), handshake);
        assert_eq!(rig.got(1).len(), 2);
        assert_eq!(["flows", "young", "flows_began"].map(|name| rig.number("f", name)), [1, 0, 1]);
        assert_eq!(rig.read("f", "counts"), "malformed_ip\t1\nsegment_refused\t1\nreset_not_exact\t1");
    }

    #[test]
    fn a_batch_is_the_same_as_its_packets_one_by_one() {
        // Handshakes, answers, repeated and refused segments, and fragments, of several connections in each batch.
        let packets: Vec<Vec<u8>> = (0..100_u32)
            .map(|at| {
                let random = at.wrapping_mul(2_654_435_761) >> 7;
                let flags = [2, 18, 16, 16, 17, 4][random as usize % 6];
                let mut packet = segment(random & 64 != 0, random % 3, random / 8 % 3, flags);
                packet[2 + 12 + 3] = (random / 512 % 4) as u8;
                if at % 16 == 0 {
                    packet[2 + 6] = 0x20;
                }
                packet
            })
            .collect();
        let run = |batch: usize| {
            let mut rig = rig(&["2", "CHECKSUMS false", "FLOWS 1000", "YOUNG 3"]);
            for packets in packets.chunks(batch) {
                rig.send(packets.iter().cloned());
                rig.turn_at(Duration::from_secs(1));
            }
            let numbers = ["flows", "young", "flows_began"].map(|name| rig.number("f", name));
            (rig.got(0), rig.got(1), numbers, rig.read("f", "counts"))
        };
        let single = run(1);
        assert!(single.0.len() > 10 && single.1.len() > 10 && single.3.contains("evicted"), "{single:?}");
        assert_eq!(run(50), single);
        assert_eq!(run(100), single);
    }

    #[test]
    fn without_a_side_output_packets_are_dropped_by_name() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("f", "FlowTracker", &["OFFSET 2", "FLOWS 1000"]).chain(&["in", "f", "out0"]);
        });
        // The checksum is wrong.
        rig.send([segment(false, 1, 0, 2), b"xx".to_vec()]);
        rig.turn();
        assert!(rig.got(0).is_empty());
        assert_eq!(["transport_checksum", "cut_or_malformed_ip"].map(|name| rig.number("f", name)), [1, 1]);
    }

    #[test]
    fn flows_go_on_in_a_new_graph_and_end_in_time() {
        let fill = |builder: &mut scalebricks_graph::Builder<scalebricks_io::Packet>| {
            builder
                .declare("f", "FlowTracker", &["2", "CHECKSUMS false", "FLOWS 1000"])
                .chain(&["in", "f", "out0"]);
        };
        let mut rig = Rig::new(1, fill);
        rig.send([segment(false, 1, 0, 2)]);
        rig.turn();
        rig.replace(fill);
        rig.send([segment(true, 5, 2, 18)]);
        rig.turn_after(Duration::from_secs(1));
        assert_eq!((rig.got(0).len(), rig.number("f", "flows")), (2, 1));
        // The answer comes too late.
        rig.send([segment(false, 2, 6, 16)]);
        rig.turn_after(Duration::from_secs(61));
        assert_eq!(rig.number("f", "segment_refused"), 1);
        assert_eq!(rig.number("f", "flows"), 0);
    }

    #[test]
    fn impossible_limits_are_refused() {
        for wrong in [&["FLOWS 0"][..], &["YOUNG 0"], &["FLOWS x"]] {
            let built = Rig::with_buffers(5, 1, |builder| {
                builder.declare("f", "FlowTracker", wrong).chain(&["in", "f", "out0"]);
            });
            assert!(built.is_err(), "{wrong:?}");
        }
    }
}
