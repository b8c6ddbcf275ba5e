//! `FlowBalance`.

use crate::shared_names::drops;
use scalebricks_flows::fragments;
use scalebricks_flows::tracker::{Balancer, Untracked};
use scalebricks_graph::{Class, Control, DropId, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;
use std::hash::{BuildHasher, RandomState};

element! {
    /// Splits IPv4 and IPv6 packets by flow: both directions of a flow, and the ICMP errors about it, leave by the same
    /// output, whose tracker is on a core of its own. The hash has a secret. Only the first fragment of a packet has
    /// ports, so this element completes packets from their fragments: the last one leaves as the whole packet, with the
    /// header that it had before IP. A malformed packet leaves by output 0.
    pub struct FlowBalance as "FlowBalance" { balancer: Balancer, offset: usize, }
    inputs { push "in": "Packets with an IP header.", }
    outputs { push "out" [OneOrMore]: "Packets of a subset of the flows.", }
    params FlowBalanceParams {
        /// Offset of the IP header.
        offset: u16 = 0,
        /// Whether to refuse fragments with a wrong IPv4 header checksum.
        checksums: bool = true,
    }
    example { "14", }
    drops {
        FRAGMENT_HELD = drops::FRAGMENT_HELD,
        FRAGMENT_REFUSED = drops::FRAGMENT_REFUSED,
        IP_CHECKSUM = drops::IP_CHECKSUM,
        TOO_LONG = drops::WHOLE_TOO_LONG,
    }
    keeps { balancer, }
}

impl FlowBalance {
    /// A balancer with a given secret. Input cores that share their outputs need equal ones.
    pub fn with_secret(secret: HashSeed, offset: u16, checksums: bool) -> Self {
        // The number of outputs is known only in a graph.
        let balancer = Balancer::new(1, secret, fragments::Config::default(), checksums);
        Self { balancer, offset: usize::from(offset) }
    }
}

impl Class for FlowBalance {
    fn make(params: FlowBalanceParams) -> Result<Self, String> {
        let random = |number: u8| RandomState::new().hash_one(number);
        Ok(Self::with_secret(HashSeed::new(random(0), random(1)), params.offset, params.checksums))
    }
}

impl Control for FlowBalance {}

/// The reason of a fragment that is not handed over.
const fn reason(untracked: Untracked) -> DropId {
    match untracked {
        Untracked::IpChecksum => FlowBalance::IP_CHECKSUM,
        Untracked::FragmentHeld => FlowBalance::FRAGMENT_HELD,
        _ => FlowBalance::FRAGMENT_REFUSED,
    }
}

impl<P: PacketBuf> Element<P> for FlowBalance {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (now, offset) = (out.now(), self.offset);
        self.balancer.set_pipelines(out.outputs() as u32); // at most 2^16 outputs
        self.balancer.expire(now);
        for slot in batch.drain() {
            let bytes = frame.packet(&slot).data().get(offset..).unwrap_or_default();
            let balanced = match self.balancer.take(bytes, 0, now) {
                Ok(balanced) => balanced,
                Err(untracked) => {
                    out.drop(slot, reason(untracked));
                    continue;
                }
            };
            if let Some(whole) = balanced.whole {
                let (packet, meta) = frame.both_mut(&slot);
                packet.truncate(offset);
                if packet.append(whole).is_err() {
                    out.drop(slot, Self::TOO_LONG);
                    continue;
                }
                meta.length = u16::try_from(whole.len()).unwrap_or(u16::MAX);
            }
            out.push(balanced.pipeline as usize, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4_of};

    /// A UDP datagram from port 9 to `port`, or back.
    fn datagram(port: u8, back: bool, len: usize) -> Vec<u8> {
        let mut udp = if back { vec![0, port, 0, 9] } else { vec![0, 9, 0, port] };
        udp.extend_from_slice(&(8 + len as u16).to_be_bytes());
        udp.extend_from_slice(&[0, 0]);
        udp.resize(8 + len, 7);
        ipv4_of(
            |header| {
                header.protocol = 17;
                if back {
                    std::mem::swap(&mut header.src, &mut header.dst);
                }
            },
            &udp,
        )
    }

    /// A fragment of a packet, behind two bytes.
    fn fragment(packet: &[u8], from: usize, to: usize) -> Vec<u8> {
        let mut bytes = [&packet[..20], &packet[20 + from..20 + to]].concat();
        let more = u16::from(20 + to < packet.len()) << 13;
        bytes[2..4].copy_from_slice(&(20 + (to - from) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&(more | (from / 8) as u16).to_be_bytes());
        [b"xx", &bytes[..]].concat()
    }

    fn rig(ends: usize) -> Rig {
        Rig::new(ends, |builder| {
            builder.declare("b", "FlowBalance", &["2", "CHECKSUMS false"]).chain(&["in", "b", "out0"]);
            for (end, name) in (1..ends).zip(["out1", "out2"]) {
                builder.connect("b", end, name, 0);
            }
        })
    }

    fn framed(packet: &[u8]) -> Vec<u8> {
        [b"xx", packet].concat()
    }

    #[test]
    fn both_directions_leave_by_one_output_and_flows_by_all() {
        let mut rig = rig(3);
        for port in 1..100 {
            rig.send([framed(&datagram(port, false, 9)), framed(&datagram(port, true, 9))]);
        }
        rig.send([b"xx".to_vec()]);
        for _ in 0..4 {
            rig.turn();
        }
        let got = [0, 1, 2].map(|end| rig.got(end));
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 199);
        assert!(got[0].contains(&b"xx".to_vec()), "a malformed packet");
        for packets in &got {
            assert!(packets.len() > 20, "{} of 198 packets by one output", packets.len());
            let flows: Vec<_> = packets.iter().filter(|packet| packet.len() > 2).collect();
            let port = |packet: &[u8]| if packet[23] == 9 { packet[25] } else { packet[23] };
            for packet in &flows {
                assert_eq!(flows.iter().filter(|other| port(other) == port(packet)).count() % 2, 0);
            }
        }
    }

    #[test]
    fn fragments_leave_as_the_packet_by_the_output_of_their_flow() {
        for port in 10..30 {
            let mut rig = rig(3);
            let packet = datagram(port, false, 192);
            rig.send([
                framed(&datagram(port, true, 9)),
                fragment(&packet, 104, 200),
                fragment(&packet, 0, 104),
            ]);
            rig.turn();
            let got: Vec<_> = (0..3).map(|end| rig.got(end)).filter(|got| !got.is_empty()).collect();
            assert_eq!(got.len(), 1, "one output");
            assert_eq!(got[0].len(), 2);
            assert_eq!(got[0][1][22..], packet[20..], "the whole packet");
            assert_eq!(rig.number("b", "fragment_held"), 1);
            // The same once more, and an overlap: the whole packet is refused.
            rig.send([fragment(&packet, 0, 104), fragment(&packet, 96, 200)]);
            rig.turn();
            assert_eq!(rig.number("b", "fragment_refused"), 1);
        }
    }

    #[test]
    fn a_packet_that_fits_no_buffer_is_dropped_by_name() {
        let mut rig = rig(1);
        let packet = datagram(7, false, 4_000);
        rig.send([
            fragment(&packet, 0, 1_600),
            fragment(&packet, 1_600, 3_200),
            fragment(&packet, 3_200, 4_008),
        ]);
        rig.turn();
        assert_eq!((rig.number("b", "fragment_held"), rig.number("b", "whole_packet_too_long")), (2, 1));
        assert!(rig.got(0).is_empty());
    }
}
