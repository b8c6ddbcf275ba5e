//! Fragments reassemble to what was cut, and obey RFC 791.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use scalebricks_wire::fragment::{FragmentPlan, MIN_MTU};
use scalebricks_wire::ipv4::{Ipv4, Ipv4Header};
use scalebricks_wire::{WriteError, checksum, ipv4_header_checksum_ok};

/// A packet with these options (a multiple of 4 octets).
fn packet(options: &[u8], payload: &[u8], units: u16, more: bool, df: bool) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0xb8,
        total_len: (20 + options.len() + payload.len()) as u16,
        identification: 0x4711,
        dont_fragment: df,
        more_fragments: more,
        fragment_units: units,
        ttl: 61,
        protocol: 17,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
    };
    let mut out = [&header.to_bytes()[..], options, payload].concat();
    out[0] = 0x45 + (options.len() / 4) as u8;
    out[10..12].fill(0);
    let sum = checksum::checksum(&out[..20 + options.len()]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out
}

fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let plan = FragmentPlan::new(packet, mtu).unwrap();
    let payload = Ipv4::parse(packet).unwrap().payload();
    plan.clone()
        .map(|piece| {
            let mut out = vec![0xaa; piece.header_len + piece.len];
            assert_eq!(plan.write_header(piece, &mut out), Ok(piece.header_len));
            out[piece.header_len..].copy_from_slice(&payload[piece.offset..piece.offset + piece.len]);
            out
        })
        .collect()
}

/// Loose source route (copied), router alert (copied), record route (not copied), padding.
const OPTIONS: [u8; 20] = [1, 131, 7, 4, 192, 0, 2, 1, 7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0];

proptest! {
    #[test]
    fn fragments_reassemble(
        payload in prop::collection::vec(any::<u8>(), 0..4000), mtu in MIN_MTU..2000,
        units in 0u16..4000, more: bool, with_options: bool,
    ) {
        let options: &[u8] = if with_options { &OPTIONS } else { &[] };
        let original = packet(options, &payload, units, more, false);
        let pieces = cut(&original, mtu);
        let mut whole = Vec::new();
        for (i, bytes) in pieces.iter().enumerate() {
            prop_assert!(bytes.len() <= mtu);
            prop_assert!(ipv4_header_checksum_ok(bytes));
            let ip = Ipv4::parse(bytes).unwrap();
            let last = i + 1 == pieces.len();
            prop_assert_eq!(ip.fragment_offset(), usize::from(units) * 8 + whole.len());
            prop_assert_eq!(ip.more_fragments(), !last || more);
            prop_assert!(last || ip.payload().len() % 8 == 0);
            prop_assert_eq!((ip.identification(), ip.ttl(), ip.dscp_ecn()), (0x4711, 61, 0xb8));
            match (with_options, i) {
                (false, _) => prop_assert_eq!(ip.options(), &[]),
                (true, 0) => prop_assert_eq!(ip.options(), &OPTIONS),
                (true, _) => prop_assert_eq!(
                    ip.options(), &[131, 7, 4, 192, 0, 2, 1, 148, 4, 0, 0, 0], "only copied options, padded"
                ),
            }
            whole.extend_from_slice(ip.payload());
        }
        prop_assert_eq!(whole, payload);
    }

    #[test]
    fn any_options_are_cut_or_refused(options in prop::collection::vec(any::<[u8; 4]>(), 0..10)) {
        let original = packet(&options.concat(), &[7; 300], 0, false, false);
        if let Ok(plan) = FragmentPlan::new(&original, 128) {
            let lens: usize = plan.clone().map(|piece| piece.len).sum();
            prop_assert_eq!(lens, 300);
            cut(&original, 128);
        }
    }
}

#[test]
fn what_fits_is_one_piece_and_df_is_obeyed() {
    let fits = packet(&[], &[1; 100], 0, false, true);
    assert_eq!(cut(&fits, 120), vec![fits.clone()]);
    assert_eq!(FragmentPlan::new(&fits, 119).err(), Some(WriteError::DontFragment));
    assert_eq!(FragmentPlan::new(&fits, 67).err(), Some(WriteError::MtuTooSmall));
}
