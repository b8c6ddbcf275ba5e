//! Processes that end again and again.

use crate::membership::world::{World, ms, seconds};
use scalebricks_control::membership::CALM;

/// Ends a node's process, and starts another after a time.
fn restart(world: &mut World, number: usize, down: std::time::Duration) {
    world.stop(number);
    world.run(down);
    world.start(number);
}

#[test]
fn a_node_takes_flows_at_once_after_its_first_death_and_later_after_the_next() {
    for seed in 0..10 {
        let mut world = World::together(seed, 4);
        restart(&mut world, 1, seconds(3));
        world.run(seconds(2));
        assert_eq!((world.alive().len(), world.suspended()), (4, vec![]), "seed {seed}");
        for wait in [2, 4, 8, 16, 32, 60, 60] {
            restart(&mut world, 1, seconds(3));
            world.run(ms(1_000));
            assert_eq!((world.alive().len(), world.suspended()), (4, vec![1]), "seed {seed}, {wait}");
            world.run(seconds(wait - 1));
            assert_eq!(world.suspended(), [1], "seed {seed}: too soon, {wait}");
            world.run(ms(1_500));
            assert_eq!(world.suspended(), [], "seed {seed}, {wait}");
        }
        // Long after, that is forgotten.
        world.run(CALM);
        restart(&mut world, 1, seconds(3));
        world.run(seconds(2));
        assert_eq!((world.alive().len(), world.suspended()), (4, vec![]), "seed {seed}");
    }
}

/// Its process ends so often that no other notices a death: each new one takes the place of the one before.
#[test]
fn a_process_that_ends_too_often_to_be_missed_is_suspended() {
    for seed in 0..10 {
        let mut world = World::together(seed, 4);
        restart(&mut world, 1, ms(300));
        world.run(ms(400));
        assert_eq!(world.suspended(), [], "seed {seed}: once may happen");
        for _ in 0..20 {
            restart(&mut world, 1, ms(300));
            world.run(ms(400));
        }
        assert_eq!((world.alive().len(), world.suspended()), (4, vec![1]), "seed {seed}");
        assert_eq!(world.suspensions(1, seconds(0)).1, 0, "seed {seed}: {:?}", world.changes);
        world.run(seconds(62));
        assert_eq!(world.suspended(), [], "seed {seed}");
    }
}

/// Two rolling upgrades in a row: no node waits, however recently it started.
#[test]
fn rolling_upgrades_suspend_no_node() {
    for (seed, nodes) in (0..5).flat_map(|seed| [2, 4].map(|nodes| (seed, nodes))) {
        let mut world = World::together(seed, nodes);
        for _ in 0..5 {
            for number in 0..nodes {
                restart(&mut world, number, seconds(3));
                world.run(seconds(2));
                assert_eq!(world.suspended(), [], "seed {seed}");
            }
            world.run(CALM);
        }
    }
}

/// All nodes are restarted at once, as after a power failure.
#[test]
fn all_at_once_take_flows_soon() {
    for seed in 0..10 {
        let mut world = World::together(seed, 4);
        for _ in 0..3 {
            (0..4).for_each(|number| world.stop(number));
            world.run(seconds(3));
            (0..4).for_each(|number| world.start(number));
            world.run(seconds(10));
            assert_eq!(world.alive().len(), 4, "seed {seed}");
            // No node's processes ended more often than those of others, so none waits.
            assert_eq!(world.suspended(), [], "seed {seed}");
        }
    }
}
