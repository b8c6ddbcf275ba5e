//! Packets of any kind at a small NAT, from both sides: bounds hold, refused packets are unchanged, translated ones have
//! right checksums if they had before, and in the end nothing is left.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_flows::fragments;
use scalebricks_flows::nat::{Allocation, Config, Filtering, Nat, Outcome, Plan, Prefix, Side};
use scalebricks_flows::tracker::Tables;
use scalebricks_fuzz::{Steps, mend};
use scalebricks_types::HashSeed;
use scalebricks_wire::{ipv4_header_checksum_ok, parse_ip};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The addresses of the seeds: 192.0.2.0/28 is inside, 198.51.100.0/31 public.
fn config(kind: u8) -> Config {
    let prefix = |address: [u8; 4], length| Prefix::new(Ipv4Addr::from(address), length).expect("a length");
    let plan = Plan::new(&[prefix([192, 0, 2, 0], 28)], &[prefix([198, 51, 100, 0], 31)], 1_024..=1_055, 4);
    Config {
        allocation: if kind & 1 == 0 { Allocation::Dynamic } else { Allocation::Deterministic },
        filtering: match kind >> 1 & 3 {
            0 => Filtering::AddressDependent,
            1 => Filtering::AddressAndPortDependent,
            _ => Filtering::EndpointIndependent,
        },
        pick_up: kind & 8 != 0,
        verify_checksums: kind & 16 != 0,
        subscriber_blocks: 2,
        subscriber_mappings: 6,
        subscriber_sessions: 6,
        sessions: 16,
        young_sessions: 8,
        fragments: fragments::Config { packets: 4, packet_fragments: 6, bytes: 8_000, ..Default::default() },
        events: 4,
        ..Config::new(plan.expect("a plan"))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let (secret, tables) = (HashSeed::from_u64(7), Tables::default());
    let mut nat = Nat::new(config(kind), secret, HashSeed::new(1, 2), tables).expect("a small one");
    let (mut now, mut packets, mut passed) = (Duration::from_secs(1), 0, 0);
    for (what, later, packet) in Steps(rest) {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], packet].concat();
        if what & 1 != 0 {
            mend(&mut frame);
        }
        let from = if what & 4 == 0 { Side::Inside } else { Side::Outside };
        // Answers to the port that an earlier packet got.
        if what & 8 != 0 && from == Side::Outside && frame.len() >= 38 {
            let lines = nat.mapping_lines(None, 9);
            let public = lines.lines().nth(usize::from(what >> 4)).and_then(|line| line.split('\t').nth(2));
            if let Some((address, port)) = public.and_then(|public| public.split_once(':'))
                && let (Ok(address), Ok(port)) = (address.parse::<Ipv4Addr>(), port.parse::<u16>())
            {
                frame[30..34].copy_from_slice(&address.octets());
                frame[36..38].copy_from_slice(&port.to_be_bytes());
                mend(&mut frame);
            }
        }
        let before = frame.clone();
        match nat.translate(from, &mut frame[14..], now) {
            Outcome::Refused(_) | Outcome::Held => assert_eq!(frame, before),
            Outcome::Translated(done) => {
                passed += 1;
                let packet = if done.fragment_len.is_some() { nat.whole() } else { &frame[14..] };
                let ip = parse_ip(packet).expect("it is a packet");
                let was_right = ipv4_header_checksum_ok(&before[14..]);
                assert!(!was_right || ipv4_header_checksum_ok(ip.bytes()));
            }
        }
        packets += 1;
        now += Duration::from_millis(u64::from(later) * u64::from(later));
        if what & 2 != 0 {
            nat.sweep(now, 5);
        }
        assert!(nat.mappings() <= 16 && nat.tracker().flows() <= 16 && nat.blocks_in_use() <= 16);
        assert!(nat.subscribers() <= 16 && nat.event_lines().lines().count() <= 4);
        assert!(nat.defragmenter().bytes() <= 8_000);
    }
    assert!(passed + nat.refusals().total() <= packets);
    for _ in 0..4 {
        now += Duration::from_secs(8_000);
        nat.sweep(now, usize::MAX);
    }
    assert_eq!((nat.mappings(), nat.tracker().flows(), nat.blocks_in_use(), nat.subscribers()), (0, 0, 0, 0));
});
