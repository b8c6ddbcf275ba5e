//! A second NAT continues the flows of a first without its state.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use super::packets::*;
use scalebricks_flows::nat::{Allocation, Refusal};
use scalebricks_types::mix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

fn deterministic(block_len: u16) -> Rig {
    Rig::with_plan(plan(block_len), |config| {
        config.allocation = Allocation::Deterministic;
        config.pick_up = true;
        config.sessions = 600;
        config.young_sessions = 600;
    })
}

#[test]
fn an_established_connection_goes_on_at_another_node() {
    let (inside, far) = ((host(200), 40_000), (remote(1), 80));
    let mut first = deterministic(512);
    let public = first.connect(inside, far);
    let block = first.nat.config().plan.deterministic_block(inside.0).unwrap();
    assert!(block.public == public.0 && block.ports.contains(&public.1));
    let mut second = deterministic(512);
    // The far end comes first: the block is known, but not which port of the host it is.
    let data = tcp(far, public, (501, 101, ACK), b"data");
    assert_eq!(second.back(&data), Err(Refusal::NoMapping));
    let sent = second.out(&tcp(inside, far, (101, 501, ACK), b"more")).unwrap();
    assert_eq!(ends(&sent), (public, far));
    assert_eq!(ends(&second.back(&data).unwrap()), (far, inside));
    second.out(&tcp(inside, far, (105, 505, FIN | ACK), b"")).unwrap();
    // A stranger's segment in the middle of nothing keeps nothing.
    second.back(&tcp((remote(7), 7), public, (1, 1, ACK), b"x")).unwrap();
    assert_eq!(second.nat.mapping_lines(None, 9).split('\t').nth(3), Some("1"));
}

/// Fraction of a subscriber's mappings that get the same port again when they come back in another order, in permille.
fn kept_permille(block_len: u16, mappings: usize) -> usize {
    let (mut same, mut all) = (0, 0);
    let mut random = SplitMix64(5);
    for number in 0..40 {
        let mut ports = BTreeSet::new();
        while ports.len() < mappings {
            ports.insert(32_768 + (random.next_u64() % 28_232) as u16);
        }
        let mut order: Vec<u16> = ports.into_iter().collect();
        let mut shuffle = |order: &mut Vec<u16>| {
            for at in (1..order.len()).rev() {
                order.swap(at, random.next_u64() as usize % (at + 1));
            }
        };
        let run = |order: &[u16]| -> BTreeMap<u16, End> {
            let mut rig = deterministic(block_len);
            order
                .iter()
                .map(|port| (*port, rig.udp((host(number), *port), (remote(1), 9)).unwrap()))
                .collect()
        };
        shuffle(&mut order);
        let before = run(&order);
        shuffle(&mut order);
        let after = run(&order);
        same += before.iter().filter(|(port, public)| after[port] == **public).count();
        all += mappings;
    }
    same * 1_000 / all
}

/// The table of docs/nat.md: percent of the block in use, and permille that keep their port.
#[test]
fn most_mappings_keep_their_port() {
    let kept = [1, 2, 5, 10, 25, 50].map(|percent| kept_permille(512, 512 * percent / 100));
    // Computed by a second implementation of the formula.
    assert_eq!(kept, [1_000, 990, 964, 952, 869, 710]);
}
