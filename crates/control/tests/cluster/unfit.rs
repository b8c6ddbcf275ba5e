//! Nodes that cannot do their work, and nodes that die again and again: what becomes of flows.

use crate::cluster::common::node;
use crate::cluster::seeds;
use crate::cluster::world::World;
use scalebricks_control::membership::{FIT_HOLD, Fitness, Unfitness};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// From the change of the view until all tables follow, logs that take up to 200 ms included.
const MOVED: Duration = Duration::from_millis(1_200);

fn set_fitness(world: &mut World, number: usize, fitness: Fitness) {
    world.nodes[number].as_mut().unwrap().agent.set_fitness(fitness);
}

/// Waits until no log has keys of a node, and all GPTs follow.
fn until_moved(world: &mut World, number: usize, within: Duration) {
    let began = world.now;
    let is_done = |world: &World| {
        world.keys_of(node(number)) == 0
            && world.logs.iter().all(|log| {
                world.members().iter().all(|&member| {
                    let replica = world.nodes[member].as_ref().unwrap().agent.replica();
                    replica.report(log.truth.id()).unwrap().gpt == log.truth.gpt_position()
                })
            })
    };
    while !is_done(world) {
        world.step();
        assert!(
            world.now <= began + within,
            "not over after {within:?}, {} keys",
            world.keys_of(node(number))
        );
    }
}

/// With what a node needs to find out (0.55 s for a worker, 0.15 s for a link, 1.25 s for a next hop) that is less than 3 s.
#[test]
fn an_unfit_node_s_keys_are_with_others_soon() {
    for (at, reason) in Unfitness::ALL.into_iter().enumerate() {
        seeds(110_000 + 100 * at as u64, 2, |seed| {
            let mut world = World::new(seed, 4);
            world.is_calm = true;
            world.live(SECOND * 4);
            assert!(world.keys_of(node(2)) > 0);
            set_fitness(&mut world, 2, Fitness::FIT.with(reason));
            until_moved(&mut world, 2, reason.confirm() + MOVED);
            // It forwards, and takes no flows, as long as it is so.
            world.live(SECOND * 5);
            assert_eq!(world.keys_of(node(2)), 0);
            assert_eq!(world.alive().len(), 4);
            set_fitness(&mut world, 2, Fitness::FIT);
            world.live(FIT_HOLD + SECOND * 3);
            assert!(world.keys_of(node(2)) > 0, "it takes flows again");
            world.settle();
        });
    }
}

/// Both nodes of a pair, and all of four: their flows stay where they are.
#[test]
fn a_failure_of_all_nodes_moves_no_flow() {
    for nodes in [2, 4] {
        seeds(120_000, 2, |seed| {
            let mut world = World::new(seed, nodes);
            world.is_calm = true;
            world.live(SECOND * 4);
            let epoch = world.record.as_ref().unwrap().1.epoch();
            for number in 0..nodes {
                set_fitness(&mut world, number, Fitness::FIT.with(Unfitness::RanNextHop));
                world.live(Duration::from_millis(500 / nodes as u64));
            }
            world.live(SECOND * 5);
            assert_eq!(world.record.as_ref().unwrap().1.epoch(), epoch);
            world.settle();
        });
    }
}

/// While flows change, messages are lost and nodes die, some are unfit for a while.
#[test]
fn nodes_that_are_unfit_for_a_while_lose_no_flow() {
    seeds(130_000, 10, |seed| {
        let mut world = World::new(seed, 4);
        world.live(SECOND * 3);
        for round in 0..4 {
            let reason = Unfitness::ALL[(seed as usize + round) % Unfitness::ALL.len()];
            // It may be down just now.
            if let Some(process) = &mut world.nodes[round] {
                process.agent.set_fitness(Fitness::FIT.with(reason));
            }
            world.live(SECOND * 3);
            if let Some(process) = &mut world.nodes[round] {
                process.agent.set_fitness(Fitness::FIT);
            }
            world.live(SECOND * 2);
        }
        world.settle();
    });
}

/// All others die: an unfit node is better than none.
#[test]
fn the_last_node_takes_flows_though_it_is_unfit() {
    seeds(140_000, 4, |seed| {
        let mut world = World::new(seed, 3);
        world.is_calm = true;
        world.live(SECOND * 4);
        set_fitness(&mut world, 1, Fitness::FIT.with(Unfitness::InternetLink));
        until_moved(&mut world, 1, SECOND * 2);
        (world.nodes[0], world.nodes[2]) = (None, None);
        world.live(SECOND * 9);
        assert_eq!(world.alive(), [node(1)]);
        let view = &world.record.as_ref().unwrap().1;
        assert!(view.is_open(node(1)) && view.answers_for_itself(node(1)));
        world.settle();
    });
}

/// A node that dies again some seconds after it came back loses its flows as soon as the first time. Version 0.1.0 left them at the
/// dead node for 30 s.
#[test]
fn a_node_that_dies_again_loses_its_keys_as_soon() {
    seeds(150_000, 5, |seed| {
        let mut world = World::new(seed, 4);
        world.is_calm = true;
        world.live(SECOND * 4);
        for death in 0..4 {
            assert!(world.keys_of(node(2)) > 0, "death {death}");
            world.nodes[2] = None;
            until_moved(&mut world, 2, Duration::from_millis(2_500));
            world.start(2);
            // It takes flows at once after the first death, and after 2 s, 4 s and 8 s later.
            world.live(SECOND * [2, 5, 7, 11][death]);
        }
        world.settle();
    });
}
