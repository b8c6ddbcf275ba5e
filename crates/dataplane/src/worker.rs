//! Runs nodes on threads until nothing is left to do.
//!
//! Each worker turns its own nodes, one after the other; a node is touched by one worker only. The hard part is to
//! know that *all* are done, since a frame may be on its way from one worker to another. A worker that finds nothing
//! to do parks: it turns no node until more frames were sent over the fabric than taken from it. When all are parked
//! and as many were taken as sent, nothing can happen any more. Three orders make that sound (after Mattern's
//! counting of messages, 1987): a worker publishes what it sent before what it took, and both before it parks; who
//! checks reads the flags first, then the takings, then the sendings. So a taking that is seen brings the sendings it
//! caused with it, and equality means that no frame was under way.

use crate::node::Node;
use crossbeam_utils::CachePadded;
use scalebricks_io::PacketBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct Progress {
    parked: AtomicBool,
    taken: AtomicU64,
    sent: AtomicU64,
}

/// How long a worker looks for frames that were sent but do not come: a frame the switch drops never does, and
/// whoever counts packets will miss it.
const GIVE_UP: Duration = Duration::from_secs(1);

/// Turns `nodes` on `threads` threads until every port and queue is empty. Returns the time from when all threads
/// were ready until the last had done its last work. Packets must not be put into the nodes' ports meanwhile.
pub fn run_until_idle<P: PacketBuf>(nodes: &mut [Node<P>], threads: usize) -> Duration {
    let share = nodes.len().div_ceil(threads.max(1)).max(1);
    let workers = nodes.len().div_ceil(share);
    if workers <= 1 {
        let start = Instant::now();
        while turn_all(nodes, start.elapsed()) > 0 {}
        return start.elapsed();
    }
    let progress: Vec<CachePadded<Progress>> = (0..workers).map(|_| CachePadded::default()).collect();
    let ready = Barrier::new(workers);
    std::thread::scope(|scope| {
        let running: Vec<_> = nodes
            .chunks_mut(share)
            .enumerate()
            .map(|(own, nodes)| {
                let (progress, ready) = (&progress[..], &ready);
                scope.spawn(move || work(nodes, own, progress, ready))
            })
            .collect();
        let times = running.into_iter().map(|worker| match worker.join() {
            Ok(time) => time,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        times.max().unwrap_or_default()
    })
}

fn turn_all<P: PacketBuf>(nodes: &mut [Node<P>], now: Duration) -> usize {
    nodes.iter_mut().map(|node| node.turn(now) + usize::from(node.has_waiting())).sum()
}

/// One worker's run; returns when it last found something to do.
fn work<P: PacketBuf>(
    nodes: &mut [Node<P>],
    own: usize,
    progress: &[CachePadded<Progress>],
    ready: &Barrier,
) -> Duration {
    ready.wait();
    let start = Instant::now();
    let mut last_work = Duration::ZERO;
    // Since when frames are under way that do not come here.
    let mut waiting_since = start;
    loop {
        let moved = turn_all(nodes, start.elapsed());
        let fabric = |count: fn(&Node<P>) -> u64| nodes.iter().map(count).sum::<u64>();
        progress[own].sent.store(fabric(|n| n.stats.fabric_out), Ordering::SeqCst);
        progress[own].taken.store(fabric(|n| n.stats.fabric_in), Ordering::SeqCst);
        if moved > 0 {
            last_work = start.elapsed();
            waiting_since = Instant::now();
            continue;
        }
        match park(own, progress, waiting_since.elapsed() > GIVE_UP) {
            Parked::AllDone => return last_work,
            Parked::NewFrames => waiting_since = Instant::now(),
            Parked::SameFrames => {}
        }
    }
}

enum Parked {
    /// Nothing is left to do anywhere.
    AllDone,
    /// Frames are under way; there was a moment without any.
    NewFrames,
    /// Frames are under way, and have been since before the worker parked.
    SameFrames,
}

/// Waits until frames are under way or all is done. A worker that gives up on frames that were sent but do not come
/// goes on only once the others have taken theirs.
fn park(own: usize, progress: &[CachePadded<Progress>], give_up: bool) -> Parked {
    progress[own].parked.store(true, Ordering::SeqCst);
    let mut was_quiet = false;
    loop {
        let all_parked = progress.iter().all(|p| p.parked.load(Ordering::SeqCst));
        let taken: u64 = progress.iter().map(|p| p.taken.load(Ordering::SeqCst)).sum();
        let sent: u64 = progress.iter().map(|p| p.sent.load(Ordering::SeqCst)).sum();
        if all_parked && (taken == sent || give_up) {
            return Parked::AllDone;
        }
        if taken != sent && (was_quiet || !give_up) {
            progress[own].parked.store(false, Ordering::SeqCst);
            return if was_quiet { Parked::NewFrames } else { Parked::SameFrames };
        }
        was_quiet |= taken == sent;
        std::thread::yield_now();
    }
}
