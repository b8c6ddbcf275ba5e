//! Random faults, one after the other, by seed.

use crate::simulation::faults::Fault;
use crate::simulation::hub::seconds;
use crate::simulation::judge::{Counts, told};
use crate::simulation::world::World;
use rand::Rng;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nodes that start find together within this time.
const TOGETHER: Duration = seconds(10);

/// Faults go on for so long at least.
const DISTURBED: Duration = seconds(62);

/// So many faults there are at least in a run.
const FAULTS: u64 = 3;

/// All is well so long after the last fault, whatever happened before.
const WELL: Duration = seconds(100);

/// What was seen in all runs.
#[derive(Debug, Default)]
pub struct Totals {
    seeds: u64,
    simulated: Duration,
    faults: BTreeMap<Fault, u64>,
    packets: Counts,
    requests: u64,
    unknown: u64,
    /// The longest time from the last fault until all was well.
    recovery: (Duration, u64),
}

impl Totals {
    fn add(&mut self, world: &World, recovery: Duration) {
        self.seeds += 1;
        self.simulated += world.now;
        for (fault, count) in &world.faults.counts {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.packets += world.judge.counts;
        self.requests += world.controllers.made;
        self.unknown += world.controllers.unknown;
        self.recovery = self.recovery.max((recovery, world.seed));
    }
}

/// How many nodes there are in the run of a seed.
pub const fn nodes_of(seed: u64) -> usize {
    2 + (seed % 5) as usize
}

/// One seed: faults, some of them at a time, then none.
pub fn run(seed: u64) -> (World, Duration) {
    run_with(World::new(seed, nodes_of(seed), 0.1))
}

/// The same in this world.
pub fn run_with(mut world: World) -> (World, Duration) {
    let (seed, nodes) = (world.seed, world.size());
    while world.members().len() < nodes {
        world.step();
        assert!(world.now < TOGETHER, "seed {seed}: not together: {:?}", world.members());
    }
    let mut fixed = true;
    while world.now < DISTURBED {
        for _ in 0..world.rng.random_range(1..=2) {
            fixed &= world.disturb().is_fixed();
        }
        let began = world.now;
        let time = seconds(world.rng.random_range(4..16));
        world.run(time);
        if fixed {
            world.judge.assert_calm(began);
        }
        if world.rng.random_bool(0.4) {
            world.heal();
        }
        world.forget_lost();
    }
    let faults: u64 = world.faults.counts.values().sum();
    assert!(faults >= FAULTS, "seed {seed}: {faults} faults");
    let recovery = settle(&mut world);
    (world, recovery)
}

/// Nothing is wrong any more: all comes to rest, and all is as the logs say. How long that took.
pub fn settle(world: &mut World) -> Duration {
    let seed = world.seed;
    world.end_faults();
    let began = world.now;
    while !world.is_whole() {
        world.step();
        if world.members().len() == world.size() {
            world.requests = 0.0;
        }
        assert!(
            world.now < began + WELL,
            "seed {seed}: no rest: members {:?}, {} requests, {:?}, {}",
            world.members(),
            if world.controllers.are_idle() { "no" } else { "some" },
            world.differences(),
            told(&world.truth),
        );
    }
    let still = world.now;
    world.assert_together();
    world.controllers.judge_refused(&world.truth);
    world.assert_delivers();
    world.judge.assert_still(still);
    still.checked_sub(began).unwrap()
}

/// Runs seeds on all cores, and tells what was seen. A seed that fails is told, and how to run it.
pub fn run_all(first: u64, seeds: u64) {
    let (next, totals, failed) =
        (AtomicU64::new(first), Mutex::new(Totals::default()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    match std::panic::catch_unwind(|| run(seed)) {
                        Ok((world, recovery)) => totals.lock().unwrap().add(&world, recovery),
                        Err(_) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort_unstable();
    // Past the capture of the test harness: the counts are told of runs that pass, too.
    let _told = writeln!(std::io::stderr(), "{:#?}", totals.into_inner().unwrap());
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds fail: {failed:?}; SIM_FIRST={} SIM_SEEDS=1 SIM_TELL=1 cargo test -p scalebricks --test integration simulation::any_seed -- --nocapture",
        failed.len(),
        failed[0],
    );
}
