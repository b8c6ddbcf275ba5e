//! Our table, with roots and entries of two sizes.

use super::family::Family;
use super::pages;
use super::table::{NO_HOP, RouteTable, Task, insert};
use crate::error::{BenchError, joined};
use crate::{pin, timing};
use scalebricks_tables::lpm::{EntryBytes, Lpm, LpmReader, NextHop, Params, Prefix};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `tables::lpm` with a root of this many bits, and entries of this many bytes at first.
pub struct Ours<A: Family, const ROOT: u8, const BYTES: usize> {
    table: Arc<Lpm<A>>,
    reader: LpmReader<A>,
}

impl<A: Family, const ROOT: u8, const BYTES: usize> RouteTable<A> for Ours<A, ROOT, BYTES> {
    const NAME: &'static str = "lpm";
    type Key = A;
    type Answer = Option<NextHop>;
    const WRONG: Option<NextHop> = NextHop::new(NextHop::MAX);

    /// With the size of entries that the routes made of it.
    fn variant(&self) -> String {
        let bytes = self.table.stats().entry_bytes.get();
        format!("{ROOT}-bit root, {bytes}-byte entries, {}", pages::ours())
    }

    fn key(address: A) -> A {
        address
    }

    fn new(_: &Task<A>) -> Result<Self, BenchError> {
        let params =
            Params::new(ROOT, Params::FAST.block_bytes()).map_err(|error| BenchError::of("lpm", error))?;
        let entries = if BYTES == 2 { EntryBytes::Two } else { EntryBytes::Four };
        let table = Arc::new(Lpm::new(params.with_entries(entries)));
        Ok(Self { reader: LpmReader::new(Arc::clone(&table)), table })
    }

    fn add(&mut self, address: A, length: u8, hop: u32) -> Result<(), BenchError> {
        insert(&self.table, prefix(address, length)?, hop)
    }

    fn remove(&mut self, address: A, length: u8) -> Result<(), BenchError> {
        self.table.remove(prefix(address, length)?);
        Ok(())
    }

    #[inline]
    fn find(&mut self, keys: &[A], answers: &mut [Option<NextHop>]) {
        if let ([key], [answer]) = (keys, &mut *answers) {
            *answer = self.reader.lookup(*key);
        } else {
            self.reader.lookup_batch(keys, answers);
        }
    }

    fn hop(answer: Option<NextHop>) -> u32 {
        answer.map_or(NO_HOP, NextHop::index)
    }

    fn table_bytes(&self, _: &Task<A>) -> u64 {
        self.table.table_bytes() as u64
    }

    fn reader(&self, task: &Arc<Task<A>>, batch: usize) -> Option<BesideWriter> {
        let (mut reader, task) = (LpmReader::new(Arc::clone(&self.table)), Arc::clone(task));
        Some(Box::new(move |stop| {
            let mut hops = vec![None; batch];
            let (mut count, clock) = (0, timing::Clock::Wall);
            let start = clock.now();
            while !stop.load(Ordering::Relaxed) {
                for addresses in task.destinations[0].chunks(batch) {
                    reader.lookup_batch(addresses, &mut hops);
                    black_box(&hops);
                    count += addresses.len();
                }
            }
            timing::rate("lpm", count, clock.now().saturating_sub(start).as_secs_f64())
        }))
    }
}

fn prefix<A: Family>(address: A, length: u8) -> Result<Prefix<A>, BenchError> {
    Prefix::new(address, length).map_err(|error| BenchError::of("lpm", error))
}

/// Looks up until it is told to stop; returns its rate.
pub type BesideWriter = Box<dyn FnOnce(&AtomicBool) -> Result<f64, BenchError> + Send>;

/// Runs `work` on one core while a reader runs on another.
///
/// # Errors
/// [`BenchError::Threads`], and those of the reader.
pub fn beside<T: Send>(
    reader: BesideWriter,
    work: impl FnOnce() -> T + Send,
) -> Result<((T, f64), f64), BenchError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            pin::to_core(1);
            reader(&stop)
        });
        let done = timing::pinned(work);
        stop.store(true, Ordering::Relaxed);
        Ok((done?, joined(reading.join())??))
    })
}
