//! Runs nodes on threads until nothing is left to do.
//!
//! Each worker turns its own nodes in order; only one worker touches a node. The difficulty is to detect that *all* are
//! done, since a frame may be on its way from one worker to another. A worker that finds nothing to do parks: it turns
//! no node until something was sent or taken since its last turn began. All is done when all workers are parked and one
//! of two conditions holds:
//!
//! - As many frames were taken from the fabric as were sent over it. Three orders make this sound (after Mattern's
//!   counting of messages, 1987): a worker publishes its sent count before its taken count, and both before it parks; the
//! check reads the flags first, then the taken counts, then the sent counts. So a visible "taken" implies that the
//! sends it caused are visible, and equality means that no frame was in transit.
//! - Every worker's last turn found nothing, and nothing was sent or taken since before it began. Then no worker will
//!   receive the frames in transit: a switch drops a frame for an address that it does not know, and packet counts will
//! show the loss.
//!
//! No clock is involved: a worker may be delayed for any time.

use crate::gateway::node::Node;
use crossbeam_utils::CachePadded;
use scalebricks_io::PacketBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Something to run: a node, or in tests something simpler.
trait Runnable: Send {
    /// Runs one turn; 0 if it found nothing and nothing waits.
    fn turn(&mut self, now: Duration) -> usize;

    /// Frames sent over the fabric so far.
    fn sent(&self) -> u64;

    /// Frames taken from the fabric so far.
    fn taken(&self) -> u64;
}

impl<P: PacketBuf + 'static> Runnable for Node<P> {
    fn turn(&mut self, now: Duration) -> usize {
        Self::turn(self, now) + usize::from(self.has_waiting())
    }

    fn sent(&self) -> u64 {
        self.stats().fabric_out
    }

    fn taken(&self) -> u64 {
        self.stats().fabric_in
    }
}

/// What a worker publishes to the others.
#[derive(Debug, Default)]
struct Progress {
    parked: AtomicBool,
    taken: AtomicU64,
    sent: AtomicU64,
    /// The sum of all sent and taken counts before its last turn began, if that turn found nothing.
    idle_since: AtomicU64,
}

/// Frames that all workers together have taken and sent.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Totals {
    taken: u64,
    sent: u64,
}

impl Totals {
    /// Reads the taken counts first: see the module's documentation.
    fn read(progress: &[CachePadded<Progress>]) -> Self {
        let taken = progress.iter().map(|p| p.taken.load(Ordering::SeqCst)).sum();
        let sent = progress.iter().map(|p| p.sent.load(Ordering::SeqCst)).sum();
        Self { taken, sent }
    }

    /// Grows with either, so an equal sum means that neither has changed.
    const fn sum(self) -> u64 {
        self.taken + self.sent
    }
}

/// Turns `nodes` on `threads` threads until every port and queue is empty. Returns the time from when all threads were
/// ready until the last found its last work. No packets may be put into the nodes' ports meanwhile.
pub fn run_until_idle<P: PacketBuf + 'static>(nodes: &mut [Node<P>], threads: usize) -> Duration {
    run(nodes, threads)
}

fn run<T: Runnable>(nodes: &mut [T], threads: usize) -> Duration {
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

fn turn_all<T: Runnable>(nodes: &mut [T], now: Duration) -> usize {
    nodes.iter_mut().map(|node| node.turn(now)).sum()
}

/// Runs one worker; returns when it last found something to do.
fn work<T: Runnable>(
    nodes: &mut [T],
    own: usize,
    progress: &[CachePadded<Progress>],
    ready: &Barrier,
) -> Duration {
    ready.wait();
    let start = Instant::now();
    let mut last_work = Duration::ZERO;
    loop {
        let before = Totals::read(progress);
        let moved = turn_all(nodes, start.elapsed());
        progress[own].sent.store(nodes.iter().map(T::sent).sum(), Ordering::SeqCst);
        progress[own].taken.store(nodes.iter().map(T::taken).sum(), Ordering::SeqCst);
        if moved > 0 {
            last_work = start.elapsed();
        } else if park(own, progress, before) {
            return last_work;
        }
    }
}

/// Waits until all is done, which it returns, or there may be something to do. The worker's last turn found nothing,
/// and began with these totals.
fn park(own: usize, progress: &[CachePadded<Progress>], before: Totals) -> bool {
    progress[own].idle_since.store(before.sum(), Ordering::SeqCst);
    progress[own].parked.store(true, Ordering::SeqCst);
    loop {
        let all_parked = progress.iter().all(|p| p.parked.load(Ordering::SeqCst));
        let idle_since = progress.iter().map(|p| p.idle_since.load(Ordering::SeqCst)).min();
        let now = Totals::read(progress);
        if all_parked && (now.taken == now.sent || idle_since == Some(now.sum())) {
            return true;
        }
        if now.taken != now.sent && now != before {
            progress[own].parked.store(false, Ordering::SeqCst);
            return false;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_queue::SegQueue;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// A frame and its path: the last stop first, the next one last.
    struct Frame {
        stops: Vec<usize>,
        /// How long the receiver is delayed before it forwards the frame.
        delay: Duration,
    }

    /// A node that forwards each frame to its next stop.
    struct Relay {
        own: usize,
        links: Arc<[SegQueue<Frame>]>,
        outside: Vec<Frame>,
        done: Arc<AtomicUsize>,
        sent: u64,
        taken: u64,
    }

    impl Relay {
        fn pass_on(&mut self, mut frame: Frame) {
            std::thread::sleep(frame.delay);
            let Some(next) = frame.stops.pop() else {
                self.done.fetch_add(1, Ordering::Relaxed);
                return;
            };
            self.sent += 1;
            // A stop that does not exist stands for an address that the switch does not know.
            if let Some(link) = self.links.get(next) {
                link.push(frame);
            }
        }
    }

    impl Runnable for Relay {
        fn turn(&mut self, _: Duration) -> usize {
            let mut moved = 0;
            if let Some(frame) = self.links[self.own].pop() {
                self.taken += 1;
                moved += 1;
                self.pass_on(frame);
            }
            if let Some(frame) = self.outside.pop() {
                moved += 1;
                self.pass_on(frame);
            }
            moved
        }

        fn sent(&self) -> u64 {
            self.sent
        }

        fn taken(&self) -> u64 {
            self.taken
        }
    }

    /// Frames that reached their last stop, and frames left on links.
    fn relayed(relays: usize, threads: usize, frames: Vec<(usize, Frame)>) -> (usize, usize) {
        let links: Arc<[SegQueue<Frame>]> = (0..relays).map(|_| SegQueue::new()).collect();
        let done = Arc::new(AtomicUsize::new(0));
        let relay = |own| Relay {
            own,
            links: Arc::clone(&links),
            outside: Vec::new(),
            done: Arc::clone(&done),
            sent: 0,
            taken: 0,
        };
        let mut nodes: Vec<Relay> = (0..relays).map(relay).collect();
        for (at, frame) in frames {
            nodes[at].outside.push(frame);
        }
        run(&mut nodes, threads);
        (done.load(Ordering::Relaxed), links.iter().map(SegQueue::len).sum())
    }

    #[test]
    fn a_worker_that_is_held_up_for_long_loses_no_frame() {
        // Sent by node 3 and taken by node 2, which the same worker turns. While that worker is delayed, the frame
        // appears in transit to the other worker; then it goes there.
        let delay = Duration::from_millis(1_300);
        let frame = Frame { stops: vec![0, 2], delay };
        assert_eq!(relayed(4, 2, vec![(3, frame)]), (1, 0));
    }

    #[test]
    fn frames_for_nobody_do_not_keep_it_running() {
        let lost = |at| (at, Frame { stops: vec![9, 1, 2], delay: Duration::ZERO });
        let there = |at| (at, Frame { stops: vec![0, 3, 1], delay: Duration::ZERO });
        assert_eq!(relayed(4, 2, vec![lost(0), there(0), lost(3), there(2)]), (2, 0));
    }

    #[test]
    fn nothing_is_under_way_when_it_ends() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..300 {
            let (relays, threads) = (2 + draw(5) as usize, 2 + draw(3) as usize);
            let mut whole = 0;
            let frames: Vec<(usize, Frame)> = (0..draw(30))
                .map(|_| {
                    let mut stops: Vec<usize> = (0..draw(6)).map(|_| draw(relays as u64) as usize).collect();
                    if draw(8) == 0 {
                        stops.insert(0, relays);
                    } else {
                        whole += 1;
                    }
                    let delay = Duration::from_micros(if draw(10) == 0 { draw(300) } else { 0 });
                    (draw(relays as u64) as usize, Frame { stops, delay })
                })
                .collect();
            assert_eq!(relayed(relays, threads, frames), (whole, 0), "round {round}");
        }
    }
}
