//! The threads that move packets.

use crate::node::config::Idle;
use scalebricks_console::status;
use scalebricks_graph::{Trace, Worker};
use scalebricks_io::PacketBuf;
#[cfg(feature = "dpdk")]
pub(crate) use start::Workers;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Turns that found nothing until a worker sleeps; before, it lets others run.
const PATIENCE: u32 = 64;

/// How often a worker tells what it counted.
pub(crate) const PUBLISH: Duration = Duration::from_millis(50);

/// What workers are told.
#[derive(Debug, Default)]
pub struct Control(AtomicBool);

impl Control {
    /// Asks all to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed); // nothing is published with it
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a worker does between two turns.
#[derive(Debug)]
pub(crate) struct Pause {
    idle: Idle,
    /// Turns in a row that found nothing.
    empty: u32,
}

impl Pause {
    pub(crate) const fn new(idle: Idle) -> Self {
        Self { idle, empty: 0 }
    }

    /// After a turn that moved so many packets: goes on at once, lets others run, or sleeps. Whether it slept.
    #[inline]
    pub(crate) fn after(&mut self, moved: usize) -> bool {
        if moved > 0 {
            self.empty = 0;
            return false;
        }
        self.empty = self.empty.saturating_add(1);
        match self.idle {
            Idle::Sleep { us } if self.empty > PATIENCE => {
                std::thread::sleep(Duration::from_micros(us.into()));
                return true;
            }
            Idle::Sleep { .. } => std::thread::yield_now(),
            Idle::Spin => std::hint::spin_loop(),
        }
        false
    }
}

/// Turns a graph's worker until all are asked to stop. Times are counted from `start`, the same for all workers.
pub fn turn<P: PacketBuf + 'static, T: Trace<P>>(
    worker: &mut Worker<P, T>,
    idle: Idle,
    start: Instant,
    control: &Control,
) {
    let mut pause = Pause::new(idle);
    while !control.is_stopping() {
        let moved = worker.turn(start.elapsed());
        if moved == 0 {
            worker.leave();
        }
        pause.after(moved);
    }
    worker.leave();
}

/// How long the end of the process may take once a thread panicked.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs what the process cannot go on without, on a thread of this name. Should it panic, the log says so, and the process ends at once
/// with the status of a failure: nothing is drained, for who panicked may hold what others wait for. The other nodes see it die, and
/// the service manager starts it again.
pub fn guarded<T>(thread: &str, run: impl FnOnce() -> T) -> T {
    // Nothing of it is used afterwards.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        tracing::error!(thread, "a thread panicked, the process ends: {}", words(&*panic));
        // Exit handlers of libraries may wait for threads that go on.
        let _overdue = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS);
            std::process::abort();
        });
        std::process::exit(status::FAILURE.into())
    })
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no words")
}

#[cfg(feature = "dpdk")]
mod start {
    use super::{Control, guarded};
    use rustix::thread::{CpuSet, sched_setaffinity};
    use scalebricks_dpdk::Eal;
    use std::io;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    /// Workers that run.
    pub(crate) struct Workers {
        eal: Eal,
        control: Arc<Control>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Workers {
        /// None yet.
        pub(crate) fn new(eal: Eal) -> Self {
            Self { eal, control: Arc::default(), threads: Vec::new() }
        }

        /// Starts one more, on a core if it has one. Should it panic, the [process ends](guarded).
        pub(crate) fn start(
            &mut self,
            core: Option<u16>,
            run: impl FnOnce(&Control) + Send + 'static,
        ) -> io::Result<()> {
            let (eal, control) = (self.eal, Arc::clone(&self.control));
            let name = format!("worker-{}", self.threads.len());
            let thread = name.clone();
            let run = move || {
                // Known to DPDK, a thread has packets of the pool at hand.
                let registered = eal.register_thread();
                if let Err(error) = &registered {
                    tracing::warn!(%error, "a worker has no packets of its own at hand");
                }
                if let Some(core) = core
                    && let Err(error) = stay_on(core)
                {
                    tracing::warn!(core, %error, "a worker is not bound to its core");
                }
                guarded(&thread, || run(&control));
            };
            self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
            Ok(())
        }

        /// Asks all to stop, and waits until they have.
        pub(crate) fn stop(self) {
            self.control.stop();
            for thread in self.threads {
                let _panicked = thread.join(); // then the process ends already
            }
        }
    }

    /// Binds this thread to a core.
    fn stay_on(core: u16) -> rustix::io::Result<()> {
        let mut one = CpuSet::new();
        if usize::from(core) >= CpuSet::MAX_CPU {
            return Err(rustix::io::Errno::INVAL);
        }
        one.set(core.into());
        sched_setaffinity(None, &one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_sleeps_only_after_many_turns_that_found_nothing() {
        let mut pause = Pause::new(Idle::Sleep { us: 1 });
        let slept = (0..PATIENCE + 2).map(|_| pause.after(0)).filter(|slept| *slept).count();
        assert_eq!(slept, 2);
        assert!(!pause.after(1), "there was something to do");
        assert!(!pause.after(0), "patient again");
        let mut spins = Pause::new(Idle::Spin);
        assert!((0..2 * PATIENCE).all(|_| !spins.after(0)));
    }
}
