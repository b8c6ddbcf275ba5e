//! Every packet arrives if any single path is broken.

use super::rig::{DETECTED, FLOWS, HEALED, Outcome, Rig, both, settled};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::Phase;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Cuts paths, waits until the nodes detect it, and checks that all packets arrive; heals them, and checks that all
/// packets take direct paths.
fn everything_arrives_round(architecture: Architecture, nodes: usize, cuts: &[(usize, usize)]) -> Rig {
    let mut rig = settled(architecture, nodes);
    rig.cut(cuts);
    rig.pass(DETECTED);
    rig.all_arrive();
    assert!(rig.relayed() > 0);
    let crossed = rig.crossings.lock().unwrap().clone();
    for (from, mac) in crossed {
        assert!(!cuts.contains(&(from, mac.node.index())), "a frame was sent into the cut: {mac:?}");
    }
    let detours = rig.detours();
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.detours(), detours, "ways stay while the cut does");
    rig.heal();
    rig.pass(HEALED);
    assert_eq!(rig.detours(), []);
    let before = rig.relayed();
    rig.all_arrive();
    assert_eq!(rig.relayed(), before, "all goes directly again");
    rig
}

#[test]
fn packets_go_round_a_broken_pair() {
    let rig = everything_arrives_round(Architecture::ScaleBricks, 4, &both(0, 1));
    assert_eq!(rig.stats().forwarded_again, 0);
}

#[test]
fn packets_go_round_a_broken_pair_with_full_duplication() {
    everything_arrives_round(Architecture::FullDuplication, 3, &both(1, 2));
}

#[test]
fn lookups_go_round_a_broken_pair() {
    everything_arrives_round(Architecture::HashPartition, 4, &both(0, 1));
}

#[test]
fn a_lookup_node_s_broken_ways_are_gone_round_too() {
    let cuts = [both(0, 1), both(2, 3)].concat();
    everything_arrives_round(Architecture::HashPartition, 4, &cuts);
}

#[test]
fn packets_of_vlb_avoid_intermediate_nodes_that_would_lose_them() {
    let mut rig = settled(Architecture::Vlb, 5);
    rig.cut(&both(0, 1));
    rig.pass(DETECTED);
    for _ in 0..5 {
        rig.all_arrive();
    }
    let crossed = rig.crossings.lock().unwrap().clone();
    assert!(crossed.iter().all(|(from, mac)| ![(0, 1), (1, 0)].contains(&(*from, mac.node.index()))));
    assert!(crossed.iter().any(|(_, mac)| mac.phase == Phase::Indirect));
}

#[test]
fn packets_go_round_a_way_that_is_cut_in_one_direction() {
    everything_arrives_round(Architecture::ScaleBricks, 3, &[(2, 0)]);
}

#[test]
fn packets_go_round_a_cut_between_groups_over_a_node_that_has_both() {
    // Nodes 0 and 1 are cut off from 3 and 4; node 2 reaches all.
    let cuts: Vec<_> = [(0, 3), (0, 4), (1, 3), (1, 4)].into_iter().flat_map(|(a, b)| both(a, b)).collect();
    let rig = everything_arrives_round(Architecture::ScaleBricks, 5, &cuts);
    assert!(rig.stats().probes_unsent == 0 && rig.stats().dropped.total() == 0);
}

#[test]
fn nothing_circles_where_no_way_is_left() {
    // Two halves: no node reaches both. Packets between them are lost at the cut, and do not circulate.
    let mut rig = settled(Architecture::ScaleBricks, 4);
    let cuts: Vec<_> = [(0, 2), (0, 3), (1, 2), (1, 3)].into_iter().flat_map(|(a, b)| both(a, b)).collect();
    rig.cut(&cuts);
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.detours(), []);
    rig.crossings.lock().unwrap().clear();
    let outcome = rig.all_flows();
    assert_eq!(outcome.dropped, []);
    let half = |node: usize| node / 2;
    let crossing = 2 * FLOWS as usize * 4 / 2;
    assert_eq!(outcome.sent.len() - outcome.left.len(), crossing);
    assert!(outcome.left.values().all(|(_, hops)| *hops <= 1));
    let crossed = rig.crossings.lock().unwrap();
    assert_eq!(crossed.iter().filter(|(from, mac)| half(*from) != half(mac.node.index())).count(), crossing);
}

#[test]
fn a_dead_node_is_not_gone_round() {
    let mut rig = settled(Architecture::ScaleBricks, 4);
    rig.cut(&[0, 1, 2].map(|node| both(node, 3)).concat());
    let outcome = rig.pass(Duration::from_secs(3));
    assert_eq!((rig.detours(), outcome.dropped), (vec![], vec![]));
    assert_eq!(rig.relayed(), 0);
}

#[test]
fn another_node_in_between_takes_over_when_one_fails() {
    let mut rig = settled(Architecture::ScaleBricks, 5);
    rig.cut(&both(0, 1));
    rig.pass(DETECTED);
    let (_, _, first) = rig.detours()[0];
    rig.cut(&both(first, 0));
    rig.pass(DETECTED);
    rig.all_arrive();
    assert!(rig.detours().iter().any(|(from, to, via)| (*from, *to) == (0, 1) && *via != first));
}

#[test]
fn a_node_in_between_sends_directly_even_when_it_goes_round_itself() {
    let mut rig = settled(Architecture::ScaleBricks, 5);
    rig.cut(&both(0, 1));
    rig.pass(DETECTED);
    let (_, _, between) = rig.detours()[0];
    rig.cut(&both(between, 1));
    // For a moment this node knows that its own path is broken, and node 0 does not.
    for _ in 0..10 {
        let outcome = rig.all_flows();
        assert_eq!(
            outcome.left.values().filter(|(_, hops)| *hops > 2).count(),
            0,
            "over a second node in between"
        );
    }
    rig.all_arrive();
}

#[test]
fn a_pair_that_fails_again_and_again_stays_gone_round() {
    let mut rig = settled(Architecture::ScaleBricks, 4);
    rig.cut(&both(0, 1));
    rig.pass(DETECTED);
    let detours = rig.detours();
    for _ in 0..5 {
        rig.heal();
        rig.pass(Duration::from_millis(500));
        assert_eq!(rig.detours(), detours);
        rig.cut(&both(0, 1));
        rig.pass(Duration::from_millis(700));
        assert_eq!(rig.detours(), detours);
        rig.all_arrive();
    }
}

#[test]
fn a_lost_probe_changes_nothing() {
    let mut rig = settled(Architecture::ScaleBricks, 3);
    for _ in 0..10 {
        rig.cut(&both(0, 1));
        rig.pass(Duration::from_millis(300));
        rig.heal();
        rig.pass(Duration::from_millis(300));
        assert_eq!(rig.detours(), []);
        assert_eq!(rig.reaches(0).len(), 2);
    }
}

#[test]
fn a_node_that_was_stopped_does_not_take_its_own_silence_for_others() {
    let mut rig = settled(Architecture::ScaleBricks, 4);
    // One node answers later than the others. That causes no detour.
    rig.slow = Some(1);
    rig.pass(Duration::from_secs(2));
    rig.stopped = Some(0);
    rig.pass(Duration::from_secs(20));
    rig.stopped = None;
    for _ in 0..200 {
        rig.turn(&mut Outcome::default());
        assert_eq!(rig.detours(), []);
    }
    assert_eq!(rig.reaches(0).len(), 3);
}

#[test]
fn fragments_of_a_datagram_go_the_same_way() {
    let mut rig = settled(Architecture::ScaleBricks, 5);
    rig.cut(&both(0, 1));
    rig.pass(DETECTED);
    rig.all_arrive();
    // The relay depends on the pair only.
    let crossed = rig.crossings.lock().unwrap();
    let ways = crossed.iter().filter(|(_, mac)| mac.phase.is_indirect());
    let mut relays: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for (from, mac) in ways {
        relays.entry((*from, mac.output_node.index())).or_default().insert(mac.node.index());
    }
    assert_eq!(relays.len(), 2);
    assert!(relays.values().all(|relays| relays.len() == 1));
}
