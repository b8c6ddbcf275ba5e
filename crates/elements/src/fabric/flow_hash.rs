//! The hash of a frame's flow.

use scalebricks_types::{FiveTuple, FlowKey, KeyHasher};
use scalebricks_wire::{ethernet, parse_ip};

/// The hash of a frame's flow, for IPv4 and IPv6: the same for both directions of a connection. Fragments are hashed
/// without ports, so that all of a datagram have one hash. Frames without an IP packet are one flow. Cost: a parse of the
/// headers, and about 6 SipHash rounds for IPv4.
pub(crate) fn flow_hash(hasher: &KeyHasher, frame: &[u8]) -> u64 {
    tuple(frame).and_then(|tuple| FlowKey::five_tuple(&tuple)).map_or(0, |key| hasher.hash(&key).get())
}

/// The five-tuple, with the smaller end as source.
fn tuple(frame: &[u8]) -> Option<FiveTuple> {
    let header = ethernet::parse_frame(frame).ok().filter(ethernet::Frame::is_ip)?;
    let summary = parse_ip(frame.get(header.l3_offset..)?).ok()?.summary;
    let tuple = summary.five_tuple();
    let tuple = match summary.fragment {
        // Later fragments of IPv6 do not tell the protocol.
        Some(_) => FiveTuple { protocol: 0, src_port: 0, dst_port: 0, ..tuple },
        None => tuple,
    };
    let is_ordered = (tuple.src, tuple.src_port) <= (tuple.dst, tuple.dst_port);
    Some(if is_ordered { tuple } else { tuple.reversed() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::ipv4_of;
    use scalebricks_types::HashSeed;

    fn frame(change: impl FnOnce(&mut scalebricks_wire::ipv4::Ipv4Header), payload: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &[8, 0], &ipv4_of(change, payload)].concat()
    }

    #[test]
    fn both_directions_and_all_fragments_have_one_hash_and_other_flows_have_others() {
        let hasher = KeyHasher::new(HashSeed::from_u64(1));
        let hash = |frame: &[u8]| flow_hash(&hasher, frame);
        let ports = |a: u16, b: u16| [&a.to_be_bytes()[..], &b.to_be_bytes(), &[0, 8, 0, 0]].concat();
        let there = frame(|_| (), &ports(7, 9));
        let back = frame(|header| (header.src, header.dst) = (header.dst, header.src), &ports(9, 7));
        assert_eq!(hash(&there), hash(&back));
        assert_ne!(hash(&there), hash(&frame(|_| (), &ports(7, 10))));
        let first = frame(|header| header.more_fragments = true, &ports(7, 9));
        let last = frame(|header| header.fragment_units = 3, b"the end!");
        assert_eq!(hash(&first), hash(&last));
        assert_ne!(hash(&first), hash(&there));
        assert_eq!((hash(b"short"), hash(&[0; 60])), (0, 0));
    }
}
