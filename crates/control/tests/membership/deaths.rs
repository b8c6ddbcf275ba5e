//! Deaths, pauses and restarts, without cuts of single links.

use crate::membership::world::{World, id, ms, seconds};
use scalebricks_control::membership::PULSELESS;
use std::time::Duration;

/// Until the few that are left take over: a second until they listen for pulses, a pulse, and then [`PULSELESS`].
const TAKEOVER: Duration = ms(8_000);

fn range(nodes: std::ops::Range<usize>) -> Vec<usize> {
    nodes.collect()
}

#[test]
fn all_find_together_and_nothing_changes_without_a_reason() {
    for seed in 0..50 {
        for nodes in [1, 2, 3, 4, 8] {
            let mut world = World::together(seed, nodes);
            world.loss = 0.02;
            world.run(seconds(10));
            assert!(world.changes.is_empty() && world.are_all_in(), "seed {seed}: {:?}", world.changes);
        }
    }
}

#[test]
fn a_dead_node_is_removed_within_a_second_and_a_little() {
    for seed in 0..50 {
        for nodes in [2, 3, 4, 8] {
            let mut world = World::together(seed, nodes);
            world.freeze(1, seconds(1_000));
            // Its last heartbeat may be 200 ms old.
            world.run(ms(780));
            assert!(world.alive().contains(&1), "seed {seed}: too soon");
            world.run(ms(480));
            assert!(!world.alive().contains(&1), "seed {seed}: {nodes} nodes");
            assert_eq!(world.record.as_ref().unwrap().1.partitions_of(id(1)).count(), 0);
            // It wakes, removes no node, learns that it was removed, and begins another life.
            world.freeze(1, ms(0));
            world.run(seconds(2));
            assert_eq!(
                (world.alive().len(), world.changes.len()),
                (nodes, 2),
                "seed {seed}: {:?}",
                world.changes
            );
            assert!(world.machine(1).is_in() && world.machine(1).life() == 2);
        }
    }
}

#[test]
fn the_few_that_are_left_take_over() {
    for seed in 0..50 {
        for (nodes, left) in [(2, 1), (3, 1), (5, 2), (8, 1), (16, 3)] {
            let mut world = World::together(seed, nodes);
            (left..nodes).for_each(|number| world.stop(number));
            if left * 2 < nodes {
                world.run(PULSELESS);
                assert_eq!(world.alive().len(), nodes, "seed {seed}: too soon");
            }
            world.run(TAKEOVER.saturating_sub(PULSELESS));
            assert_eq!(world.alive(), range(0..left), "seed {seed}");
        }
    }
}

#[test]
fn no_node_is_removed_while_none_hears_another() {
    for seed in 0..50 {
        for nodes in [3, 4, 8] {
            let mut world = World::together(seed, nodes);
            (0..nodes).for_each(|number| world.set_group(&[number], false));
            world.run(seconds(60));
            world.heal();
            world.run(seconds(5));
            assert!(world.changes.is_empty(), "seed {seed}: {:?}", world.changes);
        }
    }
}

/// The network between the nodes fails, and then the engine for a while: when it is back, no node considers the others dead only
/// because their pulses were away as long as its own.
#[test]
fn no_node_is_removed_when_the_engine_returns_before_the_network() {
    for seed in 0..50 {
        let mut world = World::together(seed, 4);
        (0..4).for_each(|number| world.set_group(&[number], false));
        (0..4).for_each(|number| world.set_engine(number, false));
        world.run(seconds(20));
        for number in 0..4 {
            world.set_engine(number, true);
            world.run(ms(500));
        }
        world.run(seconds(60));
        assert!(world.changes.is_empty(), "seed {seed}: {:?}", world.changes);
    }
}

#[test]
fn when_all_were_stopped_at_once_no_node_is_removed() {
    for seed in 0..50 {
        for nodes in [2, 4] {
            let mut world = World::together(seed, nodes);
            (0..nodes).for_each(|number| world.freeze(number, seconds(5)));
            world.run(seconds(8));
            assert!(world.changes.is_empty() && world.are_all_in(), "seed {seed}: {:?}", world.changes);
        }
    }
}

/// A node that was stopped for less than a second is not removed, and removes no other.
#[test]
fn a_short_stop_changes_nothing() {
    for seed in 0..200 {
        let mut world = World::together(seed, 4);
        world.set_pair(0, 1, false);
        world.run(seconds(3));
        world.freeze(2, ms(760));
        world.run(seconds(5));
        assert!(world.changes.is_empty(), "seed {seed}: {:?}", world.changes);
    }
}

#[test]
fn all_processes_start_again_at_once() {
    for seed in 0..50 {
        let mut world = World::together(seed, 4);
        (0..4).for_each(|number| world.start(number));
        world.run(seconds(3));
        assert!(world.changes.iter().all(|change| change.removed.is_empty()), "seed {seed}");
        assert!(world.are_all_in() && (0..4).all(|number| world.machine(number).life() == 2), "seed {seed}");
    }
}

/// The record shows that a process has restarted before any heartbeat of its new life arrived.
#[test]
fn a_process_that_starts_again_is_given_time() {
    for seed in 0..50 {
        let mut world = World::together(seed, 2);
        world.start(1);
        world.set_link(1, 0, false);
        world.run(ms(600));
        world.set_link(1, 0, true);
        world.run(seconds(3));
        assert!(
            world.changes.iter().all(|change| change.removed.is_empty()),
            "seed {seed}: {:?}",
            world.changes
        );
        assert!(world.are_all_in() && world.machine(1).life() == 2);
    }
}

/// The process starts again and cannot change the record: its old life is over, though everybody hears it.
#[test]
fn a_process_that_starts_again_without_the_engine_is_removed() {
    for seed in 0..50 {
        let mut world = World::together(seed, 4);
        world.start(3);
        world.set_engine(3, false);
        world.run(ms(1_500));
        assert_eq!(world.alive(), [0, 1, 2], "seed {seed}");
        world.set_engine(3, true);
        world.run(seconds(2));
        assert!(world.are_all_in(), "seed {seed}");
        assert_eq!(world.changes.len(), 2);
    }
}

/// All members die while a node is out; it is the only one that comes back.
#[test]
fn a_node_that_is_out_takes_over_from_dead_members() {
    for seed in 0..50 {
        let mut world = World::together(seed, 4);
        world.stop(0);
        world.run(seconds(2));
        assert_eq!(world.alive(), [1, 2, 3]);
        (1..4).for_each(|number| world.stop(number));
        world.run(seconds(1));
        world.start(0);
        world.run(TAKEOVER + seconds(1));
        assert_eq!(world.alive(), [0], "seed {seed}: {:?}", world.changes);
    }
}

/// Two processes run under one number by mistake: the later one stays.
#[test]
fn a_process_that_was_replaced_stays_out() {
    use scalebricks_control::engine::Revision;
    use scalebricks_control::membership::{Action, Membership};
    let mut world = World::together(0, 2);
    let (revision, view) = world.record.clone().unwrap();
    let old = world.nodes[1].machine.as_mut().unwrap();
    let life = old.life();
    let newer = view.with(id(1), life + 1, scalebricks_control::version::Version::NEWEST);
    old.viewed(Revision(revision.0 + 1), newer, seconds(20));
    for tenth in 0..1_000 {
        let actions = old.poll(seconds(20) + ms(tenth * 100));
        assert!(!actions.iter().any(|action| matches!(action, Action::Propose(..))), "{actions:?}");
    }
    assert!(!Membership::is_in(old));
}
