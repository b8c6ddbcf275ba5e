//! Whole clusters: every node with its membership, its share of the partitions and its tables, over a network that loses,
//! doubles and overtakes, with nodes that pause, crash, are cut off, join, leave and change their software, and tables that
//! change their shape. One seed, one run.
//!
//! At every moment, for every living ingress node that has caught up and every key that its GPT was told of: the node that its
//! GPT names has the key, or sends the packet on, once, to a node that has it. Not judged are packets to nodes that are down, or
//! that were and have not caught up.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod callers;
use crate::common;
mod driver;
mod judge;
mod unfit;
mod world;

use common::node;
use rand::Rng;
use scalebricks_control::codec::Encoded;
use scalebricks_control::distribution::COMPARE_EVERY;
use scalebricks_control::engine::Entry;
use scalebricks_control::record::{Change, Payload};
use scalebricks_tables::compact::Structure;
use scalebricks_types::PartitionId;
use std::time::Duration;
use world::{World, params};

/// Runs `SIM_SEEDS` seeds, or as few as a test has time for. The seed of a failure is printed.
fn seeds(first: u64, few: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(few);
    for seed in first..first + seeds {
        assert!(std::panic::catch_unwind(|| run(seed)).is_ok(), "seed {seed}");
    }
}

fn disturbed(seed: u64, nodes: usize) {
    let mut world = World::new(seed, nodes);
    world.live(Duration::from_secs(20));
    world.settle();
    assert!(world.judged > 1_000, "{}", world.judged);
}

#[test]
fn four_nodes_lose_no_packet() {
    seeds(0, 20, |seed| disturbed(seed, 4));
}

#[test]
fn eight_nodes_lose_no_packet() {
    seeds(10_000, 8, |seed| disturbed(seed, 8));
}

/// Nodes die, are drained and come back while flows change: both keys of each flow go the same way.
#[test]
fn both_directions_have_one_heir() {
    seeds(90_000, 20, |seed| {
        let mut world = World::new(seed, 4);
        world.drains = 0.005;
        for round in 0..4 {
            world.live(Duration::from_secs(5));
            world.nodes[round] = None;
            world.live(Duration::from_secs(3));
            world.start(round);
        }
        world.settle();
    });
}

#[test]
fn a_dead_node_s_keys_are_with_others_soon() {
    seeds(20_000, 20, |seed| {
        let mut world = World::new(seed, 4);
        world.is_calm = true;
        world.live(Duration::from_secs(4));
        world.nodes[2] = None;
        let died = world.now;
        let keys_of_the_dead =
            |world: &World| world.logs.iter().map(|log| log.truth.keys_of(node(2))).sum::<usize>();
        assert!(keys_of_the_dead(&world) > 0);
        while world.alive().contains(&node(2)) {
            world.step();
        }
        assert!(
            world.now.saturating_sub(died) <= Duration::from_millis(1_200),
            "noticed after {:?}",
            world.now.saturating_sub(died)
        );
        let is_done = |world: &World| {
            keys_of_the_dead(world) == 0
                && world.logs.iter().all(|log| {
                    world.members().iter().all(|&number| {
                        let replica = world.nodes[number].as_ref().unwrap().agent.replica();
                        replica.report(log.truth.id()).unwrap().gpt == log.truth.gpt_position()
                    })
                })
        };
        while !is_done(&world) {
            world.step();
            assert!(world.now.saturating_sub(died) <= Duration::from_millis(2_500), "not over after 2.5 s");
        }
        world.settle();
    });
}

#[test]
fn from_two_to_sixteen_nodes_and_back() {
    seeds(30_000, 3, |seed| {
        let mut world = World::new(seed, 2);
        for number in 2..16 {
            world.live(Duration::from_millis(500));
            world.start(number);
        }
        world.live(Duration::from_secs(3));
        for number in (2..16).rev() {
            world.nodes[number] = None;
            world.live(Duration::from_millis(500));
        }
        world.settle();
        assert_eq!(world.alive(), [node(0), node(1)]);
    });
}

#[test]
fn most_nodes_die_at_once() {
    seeds(35_000, 3, |seed| {
        let mut world = World::new(seed, 5);
        world.live(Duration::from_secs(4));
        for number in 2..5 {
            world.nodes[number] = None;
        }
        world.settle();
        assert_eq!(world.alive(), [node(0), node(1)]);
    });
}

#[test]
fn tables_change_their_shape_in_all_this() {
    seeds(40_000, 12, |seed| {
        let mut world = World::new(seed, 4);
        world.reshapes = 0.005;
        world.live(Duration::from_secs(20));
        world.settle();
        assert!(world.judged > 1_000 && world.shapes_passed() > 2, "{} shapes", world.shapes_passed());
    });
}

/// A table that can name two nodes, and grows with them.
#[test]
fn from_two_to_sixty_four_nodes_and_back() {
    seeds(50_000, 1, |seed| {
        let mut world = World::with_params(seed, 2, params(seed).with_value_bits(1).unwrap());
        world.judges = 8;
        world.live(Duration::from_secs(2));
        for number in 2..64 {
            world.start(number);
            world.live(Duration::from_millis(if number.is_power_of_two() { 1_500 } else { 200 }));
            if number == 20 {
                // One after the other: it may be growing with the nodes just now.
                let mut tries = 0..400;
                while !world.ask_for(world.shape().now.doubled().unwrap()) {
                    assert!(tries.next().is_some(), "{:?}", world.shape());
                    world.live(Duration::from_millis(100));
                }
            }
        }
        world.is_calm = true;
        let until = world.now + Duration::from_secs(40);
        while world.members().len() < 64 || world.shape().next.is_some() {
            assert!(world.now < until, "{:?}, {:?}", world.shape(), world.members());
            world.live(Duration::from_millis(200));
        }
        assert_eq!(world.shape().now.value_bits(), 6);
        world.is_calm = false;
        world.live(Duration::from_secs(3));
        assert!(world.shape().now.keys_per_partition() >= params(seed).keys_per_partition() * 2);
        let of = |world: &World, number| world.keys_of(node(number));
        assert!((1..64).filter(|&number| of(&world, number) > 0).count() > 16, "flows are everywhere");
        for number in (2..64).rev() {
            world.nodes[number] = None;
            // More than half at once would look like a cut.
            world.live(Duration::from_millis(if number < 16 { 1_500 } else { 200 }));
        }
        world.settle();
        assert_eq!(world.alive(), [node(0), node(1)]);
    });
}

/// Nodes pause, are cut off and end between a call, its entry in the log, and the answer; logs refuse batches. Each caller gets
/// the log's verdict, and no call is executed twice.
#[test]
fn callers_get_the_verdicts_of_the_log() {
    let (mut repeated, mut orphans) = (0, 0);
    let totals = std::sync::Mutex::new((0, 0));
    seeds(90_000, 26, |seed| {
        let mut world = World::new(seed, 4);
        world.live(Duration::from_secs(3));
        world.calls_made = 0.5;
        world.live(Duration::from_secs(20));
        world.settle();
        world.judge_calls();
        world.settle();
        assert!(world.calls.executed() > 500, "{} of {}", world.calls.executed(), world.calls.outcomes());
        let mut totals = totals.lock().unwrap();
        totals.0 += world.calls.repeated;
        totals.1 += world.calls.orphans;
    });
    (repeated, orphans) = totals.into_inner().unwrap_or((repeated, orphans));
    // Otherwise the test does not cover its subject.
    assert!(repeated > 20 && orphans > 0, "{repeated} repeated, {orphans} logged by nodes that ended then");
}

/// An owner has logged a call and dies before it answers: the next one answers, and the call is executed once.
#[test]
fn the_next_owner_tells_the_verdict_of_the_one_before() {
    seeds(95_000, 10, |seed| {
        let mut world = World::new(seed, 4);
        world.is_calm = true;
        world.live(Duration::from_secs(3));
        let owner = usize::from(world.record.as_ref().unwrap().1.owner(PartitionId(1)).unwrap().get());
        world.calls_made = 1.0;
        for _ in 0..200 {
            world.live(Duration::from_millis(20));
            if world.has_calls_of_others(owner) {
                break;
            }
        }
        world.calls_made = 0.0;
        world.log_all(owner);
        world.nodes[owner] = None;
        world.judge_calls();
        assert!(world.calls.repeated_at_rest() > 0, "no caller asked the next owner");
        world.settle();
    });
}

/// All nodes are restarted one after the other; the shape changes while the last ones restart, and after that.
#[test]
fn a_rolling_restart() {
    seeds(60_000, 6, |seed| {
        let mut world = World::new(seed, 4);
        world.live(Duration::from_secs(3));
        for number in 0..4 {
            world.nodes[number] = None;
            let down = Duration::from_millis(world.rng.random_range(100..3_000));
            world.live(down);
            world.start(number);
            world.live(Duration::from_secs(3));
        }
        let is_reshape = |change: &Change| matches!(change, Change::Reshape(_));
        let reshapes = |world: &World| {
            let entries = world.logs.iter().flat_map(|log| &log.entries);
            let reshapes = |entry: &Entry| match Payload::decode(&entry.batch.payload).unwrap() {
                Payload::Changes(changes) => changes.iter().any(is_reshape),
                Payload::Calls(_) => false,
            };
            entries.filter(|entry| reshapes(entry)).count()
        };
        world.settle();
        let before = reshapes(&world);
        assert!(world.ask_for(world.shape().now.with_seed(5)));
        world.is_calm = false;
        world.live(Duration::from_secs(5));
        world.settle();
        assert!(reshapes(&world) >= before + 4 && world.shape().now == world.shape().now.with_seed(5));
    });
}

#[test]
fn wrong_bits_are_found_and_replaced() {
    seeds(70_000, 4, |seed| {
        let mut world = World::new(seed, 4);
        world.live(Duration::from_secs(5));
        world.settle();
        let position = world.tables(2).unwrap().gpt.digest(PartitionId(1)).unwrap().0;
        let right = world.tables(1).unwrap().bits();
        world.tables(2).unwrap().damage(PartitionId(1), position);
        assert_ne!(world.tables(2).unwrap().bits(), right);
        world.judges = 0;
        let until = world.now + COMPARE_EVERY * 2 + Duration::from_secs(2);
        while world.tables(2).unwrap().bits() != right {
            assert!(world.now < until, "not found");
            world.step();
        }
        assert_eq!(world.nodes[2].as_ref().unwrap().agent.stats().astray, 1);
        world.judges = usize::MAX;
        world.is_calm = false;
        world.live(Duration::from_secs(5));
        world.settle();
    });
}

/// A table grows to four times its size at once, and no owner has the steps between any more.
#[test]
fn a_node_that_missed_three_doublings_restarts_its_gpt() {
    seeds(80_000, 2, |seed| {
        let mut world = World::new(seed, 4);
        world.is_calm = true;
        world.live(Duration::from_secs(3));
        world.nodes[3].as_mut().unwrap().paused_until = Some(Duration::MAX);
        world.live(Duration::from_secs(3));
        for _ in 0..3 {
            assert!(world.ask_for(world.shape().now.doubled().unwrap()));
            let until = world.now + Duration::from_secs(20);
            while world.shape().next.is_some() {
                assert!(world.now < until, "{:?}", world.shape());
                world.live(Duration::from_millis(100));
            }
        }
        world.forget_entries();
        for number in 0..3 {
            world.start(number);
            world.live(Duration::from_secs(3));
        }
        world.nodes[3].as_mut().unwrap().paused_until = None;
        world.live(Duration::from_secs(10));
        world.settle();
        // Othello's partitions come whole in whatever shape, SetSep's blocks become at most four times as many at once.
        let is_setsep = world.shape().now.structure() == Structure::SetSep;
        assert_eq!(world.nodes[3].as_ref().unwrap().agent.stats().begun_anew > 0, is_setsep);
    });
}

/// Older logs replace those that are in all tables. Some partitions are still followed by owners that applied the lost entries; a
/// process that starts meanwhile learns from the others that its logs were longer.
#[test]
fn logs_that_are_replaced_by_older_ones_are_followed() {
    seeds(90_000, 6, |seed| {
        let mut world = World::new(seed, 4);
        world.live(Duration::from_secs(10));
        world.settle();
        let before: usize = world.logs.iter().map(|log| log.entries.len()).sum();
        world.is_lost = true;
        world.rewind();
        let after: usize = world.logs.iter().map(|log| log.entries.len()).sum();
        assert!(after < before, "{after} of {before} entries");
        world.start(1);
        // First without changes: the positions show that entries are missing.
        (0..1_000).for_each(|_| world.step());
        world.live(Duration::from_secs(2));
        world.settle();
        let rewound = |number: usize| world.nodes[number].as_ref().unwrap().agent.stats().rewound;
        assert!(rewound(0) > 0 && rewound(2) > 0 && rewound(3) > 0, "seed {seed}");
        world.is_lost = false;
        world.is_calm = false;
        world.live(Duration::from_secs(5));
        world.settle();
    });
}
