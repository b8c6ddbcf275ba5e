//! `HashSwitch`.

use scalebricks_graph::{Class, Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Splits packets by a hash of some of their bytes, so that packets with equal bytes there keep their order. Bytes
    /// after a packet's end count as absent. The hash is FNV-1a without a secret: a sender can choose the output.
    pub struct HashSwitch as "HashSwitch" { offset: usize, length: usize, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Packets of a subset of the hashes.", }
    params HashSwitchParams {
        /// Offset of the first byte.
        offset: usize,
        /// Number of bytes.
        length: usize,
    }
    example { "3", "40", }
}

impl Class for HashSwitch {
    fn make(params: HashSwitchParams) -> Result<Self, String> {
        let HashSwitchParams { offset, length } = params;
        if length == 0 { Err("LENGTH must be at least 1".to_owned()) } else { Ok(Self { offset, length }) }
    }
}

impl Control for HashSwitch {}

/// FNV-1a with its upper half folded into the lower, which is weaker.
fn hash(bytes: &[u8]) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    (hash ^ hash >> 32) as u32
}

/// Up to `length` bytes from `offset` on.
fn window(packet: &[u8], offset: usize, length: usize) -> &[u8] {
    let start = offset.min(packet.len());
    let end = offset.saturating_add(length).min(packet.len());
    &packet[start..end]
}

impl<P: PacketBuf> Element<P> for HashSwitch {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let outputs = out.outputs().max(1);
        for slot in batch.drain() {
            let hash = hash(window(frame.packet(&slot).data(), self.offset, self.length));
            out.push(hash as usize % outputs, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;

    #[test]
    fn packets_with_equal_bytes_stay_together_and_others_spread() {
        let mut rig = Rig::new(3, |builder| {
            builder.declare("s", "HashSwitch", &["OFFSET 1", "LENGTH 2"]).chain(&["in", "s", "out0"]);
            builder.connect("s", 1, "out1", 0).connect("s", 2, "out2", 0);
        });
        rig.send((0..120u8).map(|n| vec![n, n % 40, 7]));
        rig.turn();
        let got = [0, 1, 2].map(|end| rig.got(end));
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 120);
        for packets in &got {
            assert!(packets.len() > 15, "{} of 120 packets by one output", packets.len());
            for packet in packets {
                assert_eq!(packets.iter().filter(|other| other[1] == packet[1]).count(), 3);
            }
            assert!(packets.is_sorted_by_key(|packet| packet[0]));
        }
    }

    #[test]
    fn short_packets_are_hashed_as_far_as_they_go() {
        assert_eq!(window(b"abcd", 1, 2), b"bc");
        assert_eq!(window(b"abcd", 3, usize::MAX), b"d");
        assert_eq!(window(b"abcd", usize::MAX, usize::MAX), b"");
        // Vectors of the FNV page, folded.
        let folded = |hash: u64| (hash ^ hash >> 32) as u32;
        assert_eq!(hash(b""), folded(0xcbf2_9ce4_8422_2325));
        assert_eq!(hash(b"a"), folded(0xaf63_dc4c_8601_ec8c));
        assert_eq!(hash(b"foobar"), folded(0x8594_4171_f739_67e8));
        assert!(
            Rig::with_buffers(5, 1, |builder| {
                builder.declare("s", "HashSwitch", &["0", "0"]).chain(&["in", "s", "out0"]);
            })
            .is_err()
        );
    }
}
