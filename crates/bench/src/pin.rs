//! Pins threads to cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use scalebricks_console::machine;

/// Binds the calling thread to one of the cores it may use. Numbers count from the last core backwards and
/// wrap around, because systems place their own work on the first core. If the system refuses, the thread
/// stays unbound and measurements vary more.
pub fn to_core(number: usize) {
    let Some(core) = core(number) else { return };
    let mut one = CpuSet::new();
    one.set(core);
    let _ = sched_setaffinity(None, &one);
}

/// The core that [`to_core`] binds to; `None` if the system does not report the allowed cores.
pub fn core(number: usize) -> Option<usize> {
    let allowed = sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).rev().filter(|&core| allowed.is_set(core)).collect();
    cores.get(number % cores.len().max(1)).copied()
}

/// Number of threads that can run at once.
pub fn cores() -> usize {
    machine::cores()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core_and_others_keep_theirs() {
        let before = sched_getaffinity(None).unwrap().count();
        let pinned = std::thread::spawn(|| {
            to_core(0);
            sched_getaffinity(None).unwrap().count()
        });
        assert_eq!(pinned.join().unwrap(), 1);
        assert_eq!(sched_getaffinity(None).unwrap().count(), before);
    }
}
