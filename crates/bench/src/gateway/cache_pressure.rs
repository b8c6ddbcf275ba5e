//! A thread that occupies a share of the cache shared by all cores, as in the paper: it reads a block of
//! memory line by line in a pseudo-random order.

use crate::keys::Order;
use crate::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes per cache line.
const LINE: usize = 64;

/// Bytes of the L3 cache if the system does not report them.
const USUAL: usize = 32 << 20;

/// Lines read between two checks of the stop flag.
const ROUND: u64 = 4096;

/// Occupies its share of the cache until it is dropped.
#[derive(Debug)]
pub struct CachePressure {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl CachePressure {
    /// Occupies half of the L3 cache, from this core.
    pub fn of_half(core: usize) -> Self {
        let lines = third_cache() / 2 / LINE;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            pin::to_core(core);
            let block = vec![1_u64; lines * LINE / size_of::<u64>()];
            let order = Order::of(lines as u64);
            let (mut sum, mut place) = (0_u64, 0);
            while !asked.load(Ordering::Relaxed) {
                for _ in 0..ROUND {
                    let line = order.number(place) as usize; // below `lines`
                    sum = sum.wrapping_add(block[line * LINE / size_of::<u64>()]);
                    place = if place + 1 < lines as u64 { place + 1 } else { 0 };
                }
            }
            std::hint::black_box(sum)
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for CachePressure {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it only reads
        }
    }
}

/// Bytes of the L3 cache.
pub fn third_cache() -> usize {
    let said = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").unwrap_or_default();
    let kib = said.trim().strip_suffix('K').and_then(|kib| kib.parse::<usize>().ok());
    kib.map_or(USUAL, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_until_it_is_dropped() {
        let mut bubble = CachePressure::of_half(1);
        bubble.stop.store(true, Ordering::Relaxed);
        let read = bubble.thread.take().map(JoinHandle::join);
        assert!(read.is_some_and(|read| read.is_ok_and(|sum| sum % ROUND == 0)));
        assert!(third_cache() >= 1 << 20);
    }
}
