//! Whole clusters of the product's own code on virtual time: control planes with their writers, reservations and followers, workers
//! that forward, a log with uncertain outcomes, and links that break. One seed, one run.
//!
//! Judged is where packets lead: each that leaves has a value that its key had in the logs within its staleness window.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod controllers;
mod engine;
mod hub;
mod judge;
mod log;
mod network;
mod packets;
mod process;
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
