//! Nodes that cannot do their work and say so: stuck workers, and links and next hops that fail at one node, at some, at all.

use crate::membership::world::{World, ms, seconds};
use rand::Rng;
use scalebricks_control::membership::{CALM, FIT_HOLD, Fitness, HEARING, Respect, Unfitness};
use std::time::Duration;

const FIT: Fitness = Fitness::FIT;
const RAN: Fitness = FIT.with(Unfitness::RanLink);
const INTERNET: Fitness = FIT.with(Unfitness::InternetNextHop);
const WORKER: Fitness = FIT.with(Unfitness::Worker);

/// From the last report that counts to the change of the view: a heartbeat of a witness, and the swap.
const DECIDED: Duration = ms(400);

/// All nodes with the same failure notice it within this time of the first, and no node is suspended. In simulated time less
/// than the time of confirmation, as no clock runs fast.
fn stagger(reason: Unfitness) -> Duration {
    reason.confirm().min(ms(550)).saturating_sub(ms(50))
}

fn all_respects() -> impl Iterator<Item = Respect> {
    Respect::ALL.into_iter()
}

#[test]
fn an_unfit_node_is_suspended_once_and_stays_so() {
    for (seed, nodes) in (0..5).flat_map(|seed| [2, 3, 4, 8].map(|nodes| (seed, nodes))) {
        for reason in Unfitness::ALL {
            let mut world = World::together(seed, nodes);
            world.loss = 0.02;
            world.set_fitness(1, FIT.with(reason));
            world.run(reason.confirm().saturating_sub(ms(20)));
            assert_eq!(world.suspended(), [], "seed {seed}: too soon");
            world.run(DECIDED);
            assert_eq!(world.suspended(), [1], "seed {seed}, {nodes} nodes, {reason:?}");
            assert_eq!(world.alive().len(), nodes, "seed {seed}");
            world.run(seconds(60));
            assert_eq!(world.changes.len(), 1, "seed {seed}: {:?}", world.changes);
        }
    }
}

#[test]
fn a_node_that_is_fit_again_takes_flows_after_a_while_once() {
    for (seed, nodes) in (0..5).flat_map(|seed| [2, 4].map(|nodes| (seed, nodes))) {
        let mut world = World::together(seed, nodes);
        world.set_fitness(1, RAN);
        world.run(seconds(10));
        world.set_fitness(1, FIT);
        world.run(FIT_HOLD);
        assert_eq!(world.suspended(), [1], "seed {seed}: too soon");
        world.run(DECIDED);
        assert_eq!(world.suspended(), [], "seed {seed}");
        world.run(seconds(60));
        assert_eq!(world.changes.len(), 2, "seed {seed}: {:?}", world.changes);
    }
}

#[test]
fn a_failure_of_all_nodes_suspends_none() {
    for (seed, nodes) in (0..10).flat_map(|seed| [2, 3, 4, 8].map(|nodes| (seed, nodes))) {
        for reason in Unfitness::ALL {
            let mut world = World::together(seed, nodes);
            world.loss = 0.05;
            for fitness in [FIT.with(reason), FIT] {
                let at: Vec<Duration> =
                    (0..nodes).map(|_| stagger(reason).mul_f64(world.rng.random_range(0.0..1.0))).collect();
                let began = world.now;
                while world.now < began + seconds(10) {
                    for (number, at) in at.iter().enumerate() {
                        if world.now >= began + *at {
                            world.set_fitness(number, fitness);
                        }
                    }
                    world.step();
                }
            }
            assert!(world.changes.is_empty(), "seed {seed}, {reason:?}: {:?}", world.changes);
        }
    }
}

/// Reports that were received before the failure do not count as witness to it.
#[test]
fn a_lost_report_is_no_evidence_that_others_are_fit() {
    for (seed, nodes) in (0..20).flat_map(|seed| [3, 4, 8].map(|nodes| (seed, nodes))) {
        for fitness in [WORKER, RAN] {
            let mut world = World::together(seed, nodes);
            // What nodes 2 and more report is lost for a while when all fail.
            (2..nodes).for_each(|from| world.set_link(from, 0, false));
            (0..nodes).for_each(|number| world.set_fitness(number, fitness));
            world.run(HEARING + ms(100));
            world.heal();
            world.run(seconds(10));
            assert!(world.changes.is_empty(), "seed {seed}: {:?}", world.changes);
        }
    }
}

#[test]
fn at_least_half_of_the_others_go_on() {
    for seed in 0..5 {
        let mut both = World::together(seed, 4);
        (0..2).for_each(|number| both.set_fitness(number, RAN));
        both.run(seconds(10));
        assert_eq!(both.suspended(), [0, 1], "seed {seed}");
        both.set_fitness(2, RAN);
        both.run(seconds(10));
        assert_eq!(both.suspended(), [0, 1], "seed {seed}: only node 3 is fit");
        let mut most = World::together(seed, 4);
        (0..3).for_each(|number| most.set_fitness(number, RAN));
        most.run(seconds(10));
        assert_eq!(most.suspended(), [], "seed {seed}");
        // Each lacks something else: the first suspended node cannot take the flows of the other.
        let mut pair = World::together(seed, 2);
        pair.set_fitness(0, RAN);
        pair.run(seconds(3));
        pair.set_fitness(1, INTERNET);
        pair.run(seconds(60));
        assert_eq!((pair.suspended(), pair.changes.len()), (vec![0], 1), "seed {seed}");
    }
}

/// The one with the broken link is known by it, though neither reaches the other.
#[test]
fn of_a_pair_the_one_without_its_fabric_link_is_suspended() {
    let (link, unreached) = (FIT.with(Unfitness::FabricLink), FIT.with(Unfitness::Fabric));
    for seed in 0..10 {
        let mut world = World::together(seed, 2);
        world.set_fitness(1, link);
        world.run(ms(200));
        world.set_fitness(0, unreached);
        world.set_fitness(1, link.union(unreached));
        world.run(seconds(60));
        assert_eq!((world.suspended(), world.changes.len()), (vec![1], 1), "seed {seed}");
        let mut alike = World::together(seed, 2);
        (0..2).for_each(|number| alike.set_fitness(number, unreached));
        alike.run(seconds(60));
        assert!(alike.changes.is_empty(), "seed {seed}: no node is worse than another");
    }
}

/// A node whose link comes and goes is suspended a few times, and then stays so until the link holds.
#[test]
fn a_flapping_node_takes_flows_more_and_more_seldom() {
    for seed in 0..5 {
        let mut world = World::together(seed, 4);
        for _ in 0..80 {
            world.set_fitness(0, RAN);
            world.run(seconds(1));
            world.set_fitness(0, FIT);
            world.run(seconds(5));
        }
        let (suspended, lifted) = world.suspensions(0, seconds(0));
        assert!((2..=3).contains(&suspended) && lifted < suspended, "seed {seed}: {suspended}, {lifted}");
        assert!((1..4).all(|node| world.suspensions(node, seconds(0)) == (0, 0)), "seed {seed}");
        world.run(seconds(60));
        assert_eq!(world.suspended(), [], "seed {seed}: it holds, and takes flows again within a minute");
        // Long after, it is treated as it was the first time.
        world.run(CALM);
        world.set_fitness(0, RAN);
        world.run(seconds(3));
        world.set_fitness(0, FIT);
        world.run(FIT_HOLD + DECIDED);
        assert_eq!(world.suspended(), [], "seed {seed}");
    }
}

/// Only one witness hears it, and that one cannot reach the engine: the node reports it itself.
#[test]
fn a_node_that_one_witness_hears_is_suspended() {
    for seed in 0..10 {
        for has_engine in [true, false] {
            let mut world = World::together(seed, 3);
            world.set_pair(0, 2, false);
            world.run(seconds(3));
            world.set_engine(1, has_engine);
            world.set_fitness(0, WORKER);
            world.run(Unfitness::Worker.confirm() + DECIDED);
            assert_eq!((world.suspended(), world.alive().len()), (vec![0], 3), "seed {seed}");
        }
    }
}

#[test]
fn a_suspended_node_has_to_be_fit_in_all_that_others_can_do() {
    for seed in 0..5 {
        let mut world = World::together(seed, 4);
        world.set_fitness(0, WORKER);
        world.run(seconds(5));
        world.set_fitness(0, WORKER.union(RAN));
        world.run(seconds(5));
        let marked = world.now;
        world.set_fitness(0, RAN);
        world.run(seconds(60));
        world.assert_still(marked);
        assert_eq!(world.suspended(), [0], "seed {seed}");
        // A failure of all nodes keeps none from taking flows.
        (0..4).for_each(|number| world.set_fitness(number, INTERNET));
        world.run(FIT_HOLD + DECIDED);
        assert_eq!(world.suspended(), [], "seed {seed}");
    }
}

/// A process does not count the time of a pause as fit.
#[test]
fn a_paused_node_has_to_be_fit_again_for_the_full_time() {
    for seed in 0..10 {
        let mut world = World::together(seed, 3);
        world.set_fitness(0, WORKER);
        world.run(seconds(3));
        world.set_fitness(0, FIT);
        world.run(ms(500));
        world.freeze(0, ms(900));
        world.run(ms(800) + FIT_HOLD);
        assert_eq!(world.suspended(), [0], "seed {seed}");
        world.run(DECIDED);
        assert_eq!(world.suspended(), [], "seed {seed}");
    }
}

/// One that was removed while it was unfit comes back, and takes no flows.
#[test]
fn a_node_that_returns_unfit_is_suspended_from_the_beginning() {
    for seed in 0..10 {
        let mut world = World::together(seed, 4);
        world.set_fitness(0, RAN);
        world.set_group(&[0], false);
        world.run(seconds(5));
        assert_eq!((world.alive(), world.suspended()), (vec![1, 2, 3], vec![]), "seed {seed}");
        world.heal();
        let healed = world.now;
        world.run(seconds(30));
        assert_eq!((world.alive().len(), world.suspended()), (4, vec![0]), "seed {seed}");
        let changes: Vec<_> = world.changes.iter().filter(|change| change.at >= healed).collect();
        assert!(changes.len() == 1 && changes[0].suspended == [0], "seed {seed}: {changes:?}");
    }
}

/// Changes of fitness and of cuts between nodes, one after the other; each is fixed for a while.
fn random(seed: u64) {
    let nodes = 2 + (seed % 7) as usize;
    let mut world = World::with_drift(seed, nodes, 0.1);
    world.loss = 0.02;
    world.run(seconds(5));
    for _ in 0..world.rng.random_range(3..7) {
        if world.rng.random_bool(0.3) {
            crate::membership::seeds::disturb(&mut world);
        }
        let fitness = match world.rng.random_range(0..4) {
            0 => FIT,
            _ => Fitness::from_bits(1 << world.rng.random_range(0..7)),
        };
        let share: f64 = [0.2, 0.5, 1.0][world.rng.random_range(0..3)];
        let began = world.now;
        println!("{began:?}: {fitness} with {share}");
        let hit: Vec<usize> = (0..nodes).filter(|_| world.rng.random_bool(share)).collect();
        for number in hit {
            world.set_fitness(number, fitness);
            let pause = ms(world.rng.random_range(0..500 / nodes as u64));
            world.run(pause);
        }
        let time = seconds(world.rng.random_range(8..70));
        world.run(time);
        world.assert_calm(began);
        world.assert_unfit_are_suspended();
    }
    // The longest wait of a node that is fit, and of one that comes in.
    world.run(seconds(65));
    let still = world.now;
    world.run(seconds(120));
    assert!(
        world.changes.iter().all(|change| change.at < still || !change.joined.is_empty()),
        "{:?}",
        world.changes
    );
    world.heal();
    for number in 0..nodes {
        world.set_fitness(number, FIT);
        if world.nodes[number].machine.is_none() {
            world.start(number);
        }
    }
    world.run(seconds(140));
    assert!(world.are_all_in() && world.suspended().is_empty(), "{:?} {:?}", world.alive(), world.changes);
}

impl World {
    /// Where all hear all and reach the engine, each node that is worse off than half of the others is suspended if they are not.
    fn assert_unfit_are_suspended(&self) {
        let is_whole = self.hears.iter().flatten().all(|(hears, _)| *hears)
            && self.nodes.iter().all(|node| node.has_engine && node.machine.is_some());
        if !is_whole || self.alive().len() < self.size() {
            return;
        }
        let suspended = self.suspended();
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| !suspended.contains(number))
        {
            for respect in all_respects().filter(|respect| !node.fitness.is_fit_in(*respect)) {
                let fit = |other: &usize| self.nodes[*other].fitness.is_fit_in(respect);
                let others = (0..self.size()).filter(|other| *other != number && !suspended.contains(other));
                let better = others.filter(fit).count();
                assert!(better * 2 < self.size() - 1, "{:?}: {number} is unfit: {}", self.now, node.fitness);
            }
        }
    }
}

/// `SIM_SEEDS` seeds, from `SIM_FIRST` on.
#[test]
fn every_pattern_of_fitness_ends_in_a_still_view() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let first = number("SIM_FIRST").unwrap_or(0);
    for seed in first..first + number("SIM_SEEDS").unwrap_or(100) {
        assert!(std::panic::catch_unwind(|| random(seed)).is_ok(), "seed {seed}");
    }
}

/// Each of two lacks something that the other has, and a third is removed at the same time: one change suspended both.
#[test]
fn a_suspended_node_does_not_count_as_a_replacement() {
    random(128);
    for seed in 0..20 {
        let mut world = World::together(seed, 2);
        world.set_fitness(0, RAN);
        world.set_fitness(1, FIT.with(Unfitness::InternetLink));
        world.run(seconds(60));
        assert_eq!(
            (world.suspended().len(), world.changes.len()),
            (1, 1),
            "seed {seed}: {:?}",
            world.changes
        );
    }
}
