//! A table of routes behind one interface, and the work that all get.

use super::family::Family;
use super::routes::Routes;
use crate::error::BenchError;
use crate::timing;
use scalebricks_allocator::HugePages;
use scalebricks_tables::lpm::{Lpm, NextHop, Params};
use scalebricks_types::mix::SplitMix64;
use std::hint::black_box;
use std::sync::Arc;

/// The answer for an address without a route.
pub const NO_HOP: u32 = u32::MAX;

/// Routes, destinations and changes.
pub struct Task<A: Family> {
    pub routes: Routes<A>,
    /// Sets of destinations.
    pub destinations: Vec<Vec<A>>,
    /// The right answers for each set.
    hops: Vec<Vec<u32>>,
    /// Routes to remove and add again.
    pub changes: Vec<usize>,
    /// Arrays of 256 entries that a table of DPDK needs.
    #[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "only DPDK's tables reserve them"))]
    pub groups: usize,
    /// The arrays for which `rte_fib6` wants room: as if no two routes shared one.
    #[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "only DPDK's tables reserve them"))]
    pub reserved_groups: usize,
}

impl<A: Family> Task<A> {
    /// Sets of `sets` destinations. The right answers are those of the writer's side of our table, which is
    /// an ordered map: another algorithm than that of any lookup.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the routes do not fit.
    pub fn new(routes: Routes<A>, sets: &[usize], changes: usize) -> Result<Self, BenchError> {
        let map = Lpm::<A>::new(Params::SMALL);
        for &(prefix, hop) in &routes {
            insert(&map, prefix, hop)?;
        }
        let mut random = SplitMix64(1);
        let destinations: Vec<Vec<A>> =
            sets.iter().map(|&count| A::destinations(&routes, count, &mut random)).collect();
        let hop = |address: &A| map.longest(*address).map_or(NO_HOP, |(_, hop)| hop.index());
        let hops = destinations.iter().map(|set| set.iter().map(hop).collect()).collect();
        let changes = (0..changes).map(|_| random.next_u64() as usize % routes.len()).collect();
        let levels = |length: u8| usize::from(length.saturating_sub(24).div_ceil(8));
        let reserved_groups = routes.iter().map(|(prefix, _)| levels(prefix.length())).sum();
        Ok(Self { groups: A::groups(&routes), reserved_groups, routes, destinations, hops, changes })
    }

    /// Compares a table's answers with the right ones.
    ///
    /// # Errors
    /// [`BenchError::Check`] for the first difference.
    pub fn check(&self, set: usize, name: &str, answers: &[u32]) -> Result<(), BenchError> {
        let right = &self.hops[set];
        match right.iter().zip(answers).position(|(right, got)| right != got) {
            Some(at) => Err(BenchError::check(
                name,
                format!("{:?}: next hop {}, not {}", self.destinations[set][at], answers[at], right[at]),
            )),
            None if right.len() == answers.len() => Ok(()),
            None => Err(BenchError::check(name, "an address has no answer")),
        }
    }
}

/// Inserts a route into our table.
///
/// # Errors
/// [`BenchError::Structure`] if it does not fit.
pub fn insert<A: Family>(
    table: &Lpm<A>,
    prefix: scalebricks_tables::lpm::Prefix<A>,
    hop: u32,
) -> Result<(), BenchError> {
    let hop = NextHop::new(hop).ok_or_else(|| BenchError::check("lpm", "a next hop too large"))?;
    table.insert(prefix, hop).map(drop).map_err(|error| BenchError::of("lpm", error))
}

/// A table that takes part.
pub trait Contender: Send {
    fn name(&self) -> &'static str;
    fn variant(&self) -> Option<String>;
    /// The share of the table on huge pages, if the system reports it.
    fn huge_share(&self) -> Option<f64>;
    /// Bytes that lookups may read.
    fn table_bytes(&self) -> u64;
    /// Replaces the table by an empty one.
    fn clear(&mut self) -> Result<(), BenchError>;
    /// The nanoseconds of the first [`fill`](Self::fill), if further ones would take too long.
    fn only_fill_ns(&self) -> Option<f64>;
    /// Adds all routes.
    fn fill(&mut self) -> Result<(), BenchError>;
    /// The next hops for a set of destinations, looked up in calls of `batch`.
    fn answers(&mut self, set: usize, batch: usize) -> Vec<u32>;
    /// Looks up a set of destinations several times.
    fn rotate(&mut self, set: usize, batch: usize, times: usize);
    /// Whether [`change`](Self::change) can be measured.
    fn can_change(&self) -> bool;
    /// Removes routes and adds them again.
    fn change(&mut self) -> Result<(), BenchError>;
    /// Whether lookups may run during changes.
    fn reads_beside_writer(&self) -> bool;
    /// [`change`](Self::change) while another thread looks up; its result and seconds, and the reader's rate.
    #[expect(clippy::type_complexity, reason = "what `timing::pinned` returns, and a rate")]
    fn change_beside_reader(
        &mut self,
        batch: usize,
    ) -> Result<((Result<(), BenchError>, f64), f64), BenchError>;
}

/// What differs between tables.
pub trait RouteTable<A: Family>: Send + Sized {
    const NAME: &'static str;
    /// An address as the table wants it.
    type Key: Copy + Send + Sync;
    /// An answer as the table gives it.
    type Answer: Copy + Send;
    /// Whether filling takes time with the square of the number of routes. It is then measured once.
    const FILLS_SLOWLY: bool = false;
    /// Whether routes can be removed and added again.
    const CHANGES: bool = true;
    /// An answer that no lookup gives.
    const WRONG: Self::Answer;

    /// What distinguishes it from other tables of its name.
    fn variant(&self) -> String;
    fn key(address: A) -> Self::Key;
    fn new(task: &Task<A>) -> Result<Self, BenchError>;
    fn add(&mut self, address: A, length: u8, hop: u32) -> Result<(), BenchError>;
    fn remove(&mut self, address: A, length: u8) -> Result<(), BenchError>;
    fn find(&mut self, keys: &[Self::Key], answers: &mut [Self::Answer]);
    fn hop(answer: Self::Answer) -> u32;
    fn table_bytes(&self, task: &Task<A>) -> u64;

    /// Whether it is on huge pages, if its memory is not the process's own and its allocator knows.
    fn on_huge_pages(&self) -> Option<bool> {
        None
    }

    /// A function that looks up a set until it is told to stop, and returns its rate.
    fn reader(&self, _: &Arc<Task<A>>, _: usize) -> Option<super::ours::BesideWriter> {
        None
    }
}

/// A table with its keys.
pub struct Entrant<A: Family, T: RouteTable<A>> {
    task: Arc<Task<A>>,
    table: Option<T>,
    keys: Vec<Vec<T::Key>>,
    first_fill_ns: f64,
    huge_share: Option<f64>,
}

impl<A: Family, T: RouteTable<A> + 'static> Entrant<A, T> {
    /// A filled table.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if it cannot be made or filled.
    pub fn boxed(task: &Arc<Task<A>>) -> Result<Box<dyn Contender>, BenchError>
    where
        T::Key: 'static,
    {
        let keys = task.destinations.iter().map(|set| set.iter().copied().map(T::key).collect()).collect();
        let mut entrant =
            Self { task: Arc::clone(task), table: None, keys, first_fill_ns: 0.0, huge_share: None };
        let before = HugePages::held_bytes();
        entrant.clear()?;
        let (done, seconds) = timing::pinned(|| entrant.fill())?;
        done?;
        entrant.first_fill_ns = seconds * 1e9;
        let grown = HugePages::held_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
        let bytes = entrant.table_bytes().max(1) as f64;
        entrant.huge_share = match entrant.table()?.on_huge_pages() {
            Some(all) => Some(f64::from(u8::from(all))),
            None => grown.map(|grown| (grown as f64 / bytes).min(1.0)),
        };
        Ok(Box::new(entrant))
    }

    fn table(&mut self) -> Result<&mut T, BenchError> {
        self.table.as_mut().ok_or_else(|| BenchError::check(T::NAME, "no table"))
    }
}

impl<A: Family, T: RouteTable<A> + 'static> Contender for Entrant<A, T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn variant(&self) -> Option<String> {
        self.table.as_ref().map(T::variant)
    }

    fn huge_share(&self) -> Option<f64> {
        self.huge_share
    }

    fn table_bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.table_bytes(&self.task))
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        self.table = None; // first: there may be no room for two
        self.table = Some(T::new(&self.task)?);
        Ok(())
    }

    fn only_fill_ns(&self) -> Option<f64> {
        T::FILLS_SLOWLY.then_some(self.first_fill_ns)
    }

    fn fill(&mut self) -> Result<(), BenchError> {
        let task = Arc::clone(&self.task);
        let table = self.table()?;
        task.routes.iter().try_for_each(|(prefix, hop)| table.add(prefix.address(), prefix.length(), *hop))
    }

    fn answers(&mut self, set: usize, batch: usize) -> Vec<u32> {
        let keys = &self.keys[set];
        let mut answers = vec![T::WRONG; keys.len()];
        if let Some(table) = &mut self.table {
            for (keys, answers) in keys.chunks(batch).zip(answers.chunks_mut(batch)) {
                table.find(keys, answers);
            }
        }
        answers.into_iter().map(T::hop).collect()
    }

    /// Answers go to one buffer, as in a router, which uses them at once.
    fn rotate(&mut self, set: usize, batch: usize, times: usize) {
        let keys = &self.keys[set];
        let mut answers = vec![T::WRONG; batch];
        let Some(table) = &mut self.table else { return };
        for _ in 0..times {
            for keys in keys.chunks(batch) {
                table.find(keys, &mut answers[..keys.len()]);
                black_box(&answers);
            }
        }
    }

    fn can_change(&self) -> bool {
        T::CHANGES
    }

    fn change(&mut self) -> Result<(), BenchError> {
        let task = Arc::clone(&self.task);
        let table = self.table()?;
        for &at in &task.changes {
            let (prefix, hop) = task.routes[at];
            table.remove(prefix.address(), prefix.length())?;
            table.add(prefix.address(), prefix.length(), hop)?;
        }
        Ok(())
    }

    fn reads_beside_writer(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.reader(&self.task, 1).is_some())
    }

    fn change_beside_reader(
        &mut self,
        batch: usize,
    ) -> Result<((Result<(), BenchError>, f64), f64), BenchError> {
        let reader = self.table.as_ref().and_then(|table| table.reader(&self.task, batch));
        let reader = reader.ok_or_else(|| BenchError::check(T::NAME, "no reader beside a writer"))?;
        super::ours::beside(reader, || self.change())
    }
}
