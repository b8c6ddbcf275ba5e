//! A worker thread of a node: packets, the slow path, and idling.

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

/// How long a stopping worker tries to send frames that wait for the fabric.
const LAST_FRAMES: Duration = Duration::from_millis(100);

/// Statistics of a worker, shared with other threads.
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
    /// The share of recent time spent in such turns.
    pub busy_share: f64,
}

impl SharedStats {
    /// The counters of the worker's node, as last published.
    pub fn counters(&self) -> NodeStats {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) // copied whole
    }

    /// When the worker began its newest turn, on the workers' clock. Unlike the other values it is always current.
    pub fn turned(&self) -> Duration {
        Duration::from_nanos(self.turned_ns.load(Ordering::Relaxed))
    }

    /// Records that the worker begins a turn. Cost: a store to a cache line that others read only every 50 ms.
    #[inline(always)]
    fn turn(&self, now: Duration) {
        self.turned_ns.store(now.as_nanos() as u64, Ordering::Relaxed); // 584 years
    }

    /// How the worker spends its time.
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

/// A node with the state of its thread.
pub struct Worker<P: PacketBuf + 'static> {
    /// Its node.
    pub node: Node<P>,
    /// Buffers for answers.
    pub buffers: Box<dyn PacketSource<P> + Send>,
    /// The slow path, shared by all workers.
    pub slow_path: Arc<SlowPath>,
    /// Its statistics.
    pub stats: Arc<SharedStats>,
    /// What it does when idle.
    pub idle: Idle,
    /// Whether it runs the timers of the slow path; one worker does.
    pub keeps_time: bool,
    /// The start of the clock, the same for all workers.
    pub start: Instant,
    /// Signals that the worker is between two turns, if needed.
    pub mark: Option<Mark>,
}

/// The load since the last publication.
#[derive(Default)]
struct Tally {
    load: Load,
    since: Duration,
    busy_before: Duration,
}

impl<P: PacketBuf + 'static> Worker<P> {
    /// Runs the node until it is asked to stop.
    pub fn run(&mut self, control: &Control) {
        self.node.keep_punts();
        let mut adjacencies = self.slow_path.adjacencies();
        self.node.set_adjacencies(Arc::clone(&adjacencies));
        let mut punts: Vec<Punt<P>> = Vec::new();
        let (mut tally, mut pause) = (Tally::default(), Pause::new(self.idle));
        let mut now = self.start.elapsed();
        while !control.is_stopping() {
            self.stats.turn(now);
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
            self.record(&mut tally, moved, now, after);
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

    /// Tries once more to send the frames that the fabric has refused.
    fn finish(&mut self, from: Duration) {
        while self.node.has_waiting() && self.start.elapsed() < from + LAST_FRAMES {
            self.node.turn(self.start.elapsed());
        }
    }

    fn record(&self, tally: &mut Tally, moved: usize, from: Duration, to: Duration) {
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
        // Readers hold the lock only while they copy.
        *self.stats.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.node.stats();
        let Load { turns, busy_turns, packets, busy, busy_share } = tally.load;
        let busy_ns = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        for (counter, value) in [
            (&self.stats.turns, turns),
            (&self.stats.busy_turns, busy_turns),
            (&self.stats.packets, packets),
            (&self.stats.busy_ns, busy_ns),
            (&self.stats.busy_share, busy_share.to_bits()),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }
}
