//! A thread that turns a node: packets, what is left of them for the slow path, and what to do when there are none.

use super::config::Idle;
use super::slow_path::SlowPath;
use crate::runtime::workers::{Control, PUBLISH, Pause};
use arc_swap::Guard;
use scalebricks_apps::gateway::{Node, NodeStats};
use scalebricks_elements::gateway::{Adjacencies, Punt};
use scalebricks_graph::Mark;
use scalebricks_io::{PacketBuf, PacketSource};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker that stops tries to get rid of what waits for the fabric.
const LAST_FRAMES: Duration = Duration::from_millis(100);

/// What a worker tells of itself.
#[derive(Debug, Default)]
pub struct SharedStats {
    counters: Mutex<NodeStats>,
    turns: AtomicU64,
    busy_turns: AtomicU64,
    packets: AtomicU64,
    busy_ns: AtomicU64,
    /// Bits of a share, 0 to 1.
    busy_share: AtomicU64,
    turned_ns: AtomicU64,
}

/// How a worker spends its time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Turns.
    pub turns: u64,
    /// Turns that moved packets.
    pub busy_turns: u64,
    /// Packets moved.
    pub packets: u64,
    /// Time spent in turns that moved packets.
    pub busy: Duration,
    /// Its share of the last while.
    pub busy_share: f64,
}

impl SharedStats {
    /// What the worker's node has counted, a moment ago.
    pub fn counters(&self) -> NodeStats {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) // copied whole
    }

    /// When the worker began its newest turn, since the moment its times are counted from. Unlike all else, never old.
    pub fn turned(&self) -> Duration {
        Duration::from_nanos(self.turned_ns.load(Ordering::Relaxed))
    }

    /// The worker begins a turn. Cost: a store to a cache line that is its own, but for a look of others every 50 ms.
    #[inline(always)]
    fn turn(&self, now: Duration) {
        self.turned_ns.store(now.as_nanos() as u64, Ordering::Relaxed); // 584 years
    }

    /// How it spends its time.
    pub fn load(&self) -> Load {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Load {
            turns: get(&self.turns),
            busy_turns: get(&self.busy_turns),
            packets: get(&self.packets),
            busy: Duration::from_nanos(get(&self.busy_ns)),
            busy_share: f64::from_bits(get(&self.busy_share)),
        }
    }
}

/// A node, and what its thread needs.
pub struct Worker<P: PacketBuf + 'static> {
    /// Its node.
    pub node: Node<P>,
    /// Where answers are made in.
    pub buffers: Box<dyn PacketSource<P> + Send>,
    /// Shared by all workers.
    pub slow_path: Arc<SlowPath>,
    /// What it tells of itself.
    pub told: Arc<SharedStats>,
    /// When there is nothing to do.
    pub idle: Idle,
    /// Whether it looks after the slow path's timers: one does.
    pub keeps_time: bool,
    /// The moment times are counted from, the same for all workers.
    pub start: Instant,
    /// What it says with that it is between two turns, if somebody waits for that.
    pub mark: Option<Mark>,
}

/// What has happened since a worker told of it last.
#[derive(Default)]
struct Tally {
    load: Load,
    since: Duration,
    busy_before: Duration,
}

impl<P: PacketBuf + 'static> Worker<P> {
    /// Turns the node until it is asked to stop.
    pub fn run(&mut self, control: &Control) {
        self.node.keep_punts();
        let mut adjacencies = self.slow_path.adjacencies();
        self.node.set_adjacencies(Arc::clone(&adjacencies));
        let mut punts: Vec<Punt<P>> = Vec::new();
        let (mut tally, mut pause) = (Tally::default(), Pause::new(self.idle));
        let mut now = self.start.elapsed();
        while !control.is_stopping() {
            self.told.turn(now);
            self.take_adjacencies(&mut adjacencies);
            if let Some(mark) = &mut self.mark {
                mark.pass();
            }
            let moved = self.node.turn(now);
            let due = self.keeps_time && now >= self.slow_path.deadline();
            self.node.take_punts(&mut punts);
            if !punts.is_empty() || due {
                self.slow_path.work(&mut self.node, &mut punts, &mut *self.buffers, due, now);
            }
            let after = self.start.elapsed();
            self.tell(&mut tally, moved, now, after);
            now = after;
            if pause.after(moved) {
                now = self.start.elapsed();
            }
        }
        self.finish(now);
        self.mark = None;
        self.publish(&tally);
    }

    /// Gives the node the newest next hops, if there are newer ones.
    fn take_adjacencies(&mut self, held: &mut Arc<Adjacencies>) {
        let newest = self.slow_path.peek();
        if !Arc::ptr_eq(&newest, held) {
            *held = Guard::into_inner(newest);
            self.node.set_adjacencies(Arc::clone(held));
        }
    }

    /// What the fabric has refused so far gets a last chance.
    fn finish(&mut self, from: Duration) {
        while self.node.has_waiting() && self.start.elapsed() < from + LAST_FRAMES {
            self.node.turn(self.start.elapsed());
        }
    }

    fn tell(&self, tally: &mut Tally, moved: usize, from: Duration, to: Duration) {
        tally.load.turns += 1;
        if moved > 0 {
            tally.load.busy_turns += 1;
            tally.load.packets += moved as u64;
            tally.load.busy += to.saturating_sub(from);
        }
        let passed = to.saturating_sub(tally.since);
        if passed >= PUBLISH {
            let busy = tally.load.busy.saturating_sub(tally.busy_before);
            tally.load.busy_share = (busy.as_secs_f64() / passed.as_secs_f64()).min(1.0);
            (tally.since, tally.busy_before) = (to, tally.load.busy);
            self.publish(tally);
        }
    }

    fn publish(&self, tally: &Tally) {
        // Whoever reads holds the lock for a copy only.
        *self.told.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.node.stats();
        let Load { turns, busy_turns, packets, busy, busy_share } = tally.load;
        let busy_ns = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        for (counter, value) in [
            (&self.told.turns, turns),
            (&self.told.busy_turns, busy_turns),
            (&self.told.packets, packets),
            (&self.told.busy_ns, busy_ns),
            (&self.told.busy_share, busy_share.to_bits()),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }
}
