//! Whole clusters of the product's own code on virtual time: control planes with their writers, reservations and followers, workers
//! that forward, a log with uncertain outcomes, and links that break. One seed, one run.
//!
//! Judged is where packets lead: each that leaves has a value that its key had in the logs within its staleness window.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod controllers;
mod engine;
mod faults;
mod hub;
mod judge;
mod log;
mod network;
mod packets;
mod process;
mod seeds;
mod truth;
mod world;

use hub::{ms, seconds};
use world::World;

#[test]
fn two_nodes_without_faults_deliver_by_value() {
    let mut world = World::new(1, 2, 0.0);
    let began = std::time::Instant::now();
    while world.members().len() < 2 {
        world.step();
        assert!(world.now < seconds(5), "{:?}", world.view);
    }
    world.run(seconds(60));
    world.requests = 0.0;
    for _ in 0..500 {
        world.step();
        if world.is_whole() {
            break;
        }
    }
    assert!(world.is_whole(), "{:?}, {}", world.differences(), judge::told(&world.truth));
    world.run(ms(100));
    world.assert_together();
    world.assert_delivers();
    println!("{:?} {} {:?}", world.judge.counts, judge::told(&world.truth), began.elapsed());
}

/// As many seeds as `SIM_SEEDS` says, from `SIM_FIRST` on.
#[test]
fn any_seed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    seeds::run_all(number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(20));
}

/// All nodes restart. One said that it had caught up while its bits were older than the logs' ends at that time, as others had
/// not reported yet, and led packets to an older value of their key.
#[test]
fn nodes_that_all_restart_are_not_ready_with_old_bits() {
    for seed in [34, 45] {
        seeds::run(seed);
    }
}
