//! Element counters: one array per element and worker, with one writer each.

use crate::spec::{CounterId, CounterSpec, DropId, DropSpec, RUN_COUNTERS, RUN_DROPS, Spec, run};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The cells of one element on one worker: [`RUN_COUNTERS`], the class's counters, [`RUN_DROPS`], the class's drops.
#[derive(Debug)]
pub struct Cells {
    values: Box<[AtomicU64]>,
    drops_from: usize,
}

impl Cells {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self { values: (0..spec.cells()).map(|_| AtomicU64::new(0)).collect(), drops_from: spec.drops_from() }
    }

    /// Adds to a cell. One writer: a plain load and store, no locked instruction.
    #[inline(always)]
    fn add(&self, at: usize, n: u64) {
        if let Some(cell) = self.values.get(at) {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn add_run(&self, counter: usize, n: u64) {
        self.add(counter, n);
    }

    /// Adds to a counter of the class.
    #[inline(always)]
    pub(crate) fn count(&self, counter: CounterId, n: u64) {
        self.add(RUN_COUNTERS.len() + usize::from(counter.0), n);
    }

    /// Sets a counter of the class that is a level.
    #[inline(always)]
    pub(crate) fn set(&self, counter: CounterId, value: u64) {
        if let Some(cell) = self.values.get(RUN_COUNTERS.len() + usize::from(counter.0)) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn drop_run(&self, reason: usize, n: u64) {
        self.add(self.drops_from + reason, n);
    }

    #[inline(always)]
    pub(crate) fn count_drops(&self, reason: DropId, n: u64) {
        self.add(self.drops_from + RUN_DROPS.len() + usize::from(reason.0), n);
    }

    /// Adds to a drop reason of the runner or class, numbered from the first of [`RUN_DROPS`].
    #[inline(always)]
    pub(crate) fn drop_at(&self, reason: u8) {
        self.add(self.drops_from + usize::from(reason), 1);
    }

    /// The current values.
    pub(crate) fn counted(&self, element: &Arc<str>, spec: &'static Spec) -> CounterSnapshot {
        let values = self.values.iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
        CounterSnapshot { element: Arc::clone(element), spec, values }
    }
}

/// One counter or drop reason of one element, for frequent reads. Cost of a read: one load.
#[derive(Debug, Clone)]
pub struct Reading {
    cells: Arc<Cells>,
    at: usize,
}

impl Reading {
    /// The current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.cells.values.get(self.at).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

/// Counter values of one element, at one moment or summed over workers.
#[derive(Debug, Clone)]
pub struct CounterSnapshot {
    /// The element's name.
    pub element: Arc<str>,
    /// Its class.
    pub spec: &'static Spec,
    values: Vec<u64>,
}

impl CounterSnapshot {
    /// All counters, the runner's first.
    pub fn counters(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> + '_ {
        let specs = RUN_COUNTERS.iter().chain(self.spec.counters);
        specs.zip(self.values.iter().copied())
    }

    /// All drop reasons, the runner's first.
    pub fn drops(&self) -> impl Iterator<Item = (&'static DropSpec, u64)> + '_ {
        let specs = RUN_DROPS.iter().chain(self.spec.drops);
        specs.zip(self.values.iter().skip(self.spec.drops_from()).copied())
    }

    /// The value of a counter or drop reason by name.
    pub fn get(&self, name: &str) -> Option<u64> {
        let counter = self.counters().find(|(spec, _)| spec.name == name).map(|(_, value)| value);
        counter.or_else(|| self.drops().find(|(spec, _)| spec.name == name).map(|(_, value)| value))
    }

    /// The sum of all drops.
    pub fn dropped(&self) -> u64 {
        self.drops().map(|(_, value)| value).sum()
    }
}

/// The runner's counters of one element, for a [shortcut](crate::Registry::shortcut) past it on the same worker.
#[derive(Debug, Clone)]
pub struct PassedCounts(Arc<Cells>);

impl PassedCounts {
    pub(crate) const fn new(cells: Arc<Cells>) -> Self {
        Self(cells)
    }

    /// Counts a batch of packets.
    #[inline]
    pub fn add(&self, packets: u64) {
        self.0.add_run(run::PACKETS, packets);
        self.0.add_run(run::BATCHES, 1);
    }
}

type NameAndClass = (Arc<str>, &'static str);

/// The counters of one worker: of all elements that its graphs have had, so that they continue when a graph is
/// replaced. Control code keeps it and passes it to every build of a graph for that worker. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// By name and class: a new graph may replace an element by one of another class while both still count.
    elements: BTreeMap<NameAndClass, (&'static Spec, Arc<Cells>)>,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cells of an element: existing ones for the same name and class, or new ones.
    pub(crate) fn cells(&mut self, element: &Arc<str>, spec: &'static Spec) -> Arc<Cells> {
        let key = (Arc::clone(element), spec.class);
        match self.elements.get(&key) {
            Some((there, cells)) if there.cells() == spec.cells() => Arc::clone(cells),
            _ => {
                let cells = Arc::new(Cells::new(spec));
                self.elements.insert(key, (spec, Arc::clone(&cells)));
                cells
            }
        }
    }

    /// The values of all elements, by name and class. Values of different cells may be a few packets apart.
    pub fn snapshot(&self) -> Vec<CounterSnapshot> {
        self.elements.iter().map(|((element, _), (spec, cells))| cells.counted(element, spec)).collect()
    }

    /// The values of the element of this name and class.
    pub fn counted(&self, element: &str, class: &'static str) -> Option<CounterSnapshot> {
        let key = (Arc::from(element), class);
        let (spec, cells) = self.elements.get(&key)?;
        Some(cells.counted(&key.0, spec))
    }

    /// A counter or drop reason of the newest element with that name.
    pub fn reading(&self, element: &str, name: &str) -> Option<Reading> {
        let (_, (spec, cells)) = self.elements.iter().rfind(|((there, _), _)| &**there == element)?;
        let counters = RUN_COUNTERS.iter().chain(spec.counters).map(|spec| spec.name);
        let names = counters.chain(RUN_DROPS.iter().chain(spec.drops).map(|spec| spec.name));
        let at = names.enumerate().find(|(_, there)| *there == name)?.0;
        Some(Reading { cells: Arc::clone(cells), at })
    }

    /// All counters and drop reasons of all elements: element, whether it is a drop reason, name and reading.
    pub fn readings(&self) -> impl Iterator<Item = (&str, bool, &'static str, Reading)> {
        self.elements.iter().flat_map(|((element, _), (spec, cells))| {
            let counters = RUN_COUNTERS.iter().chain(spec.counters).map(|spec| (false, spec.name));
            let drops = RUN_DROPS.iter().chain(spec.drops).map(|spec| (true, spec.name));
            let all = counters.chain(drops).enumerate();
            all.map(move |(at, (is_drop, name))| {
                (&**element, is_drop, name, Reading { cells: Arc::clone(cells), at })
            })
        })
    }

    /// Removes elements that `keep` rejects, those that no graph has any more.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        self.elements.retain(|(name, class), _| keep(name, class));
    }
}

/// The sum over workers, by name and class.
pub fn sum<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Vec<CounterSnapshot> {
    let mut all: BTreeMap<NameAndClass, CounterSnapshot> = BTreeMap::new();
    for counted in ledgers.into_iter().flat_map(Ledger::snapshot) {
        let key = (Arc::clone(&counted.element), counted.spec.class);
        match all.get_mut(&key) {
            Some(sum) => sum.values.iter_mut().zip(counted.values).for_each(|(a, b)| *a = a.wrapping_add(b)),
            None => {
                all.insert(key, counted);
            }
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::element! {
        /// For tests.
        struct Sample as "Sample" {}
        drops { BAD = "bad": "Bad.", WORSE = "worse": "Worse.", }
        counters { SEEN = "seen": "Seen.", LEVEL = "level": "Level.", }
    }

    crate::element! {
        /// For tests.
        struct Other as "Other" {}
    }

    #[test]
    fn every_cell_has_its_name() {
        let (Sample {}, Other {}) = (Sample {}, Other {});
        let mut ledger = Ledger::new();
        let cells = ledger.cells(&"a".into(), Sample::SPEC);
        cells.add_run(run::PACKETS, 1);
        cells.add_run(run::BATCHES, 2);
        cells.count(Sample::SEEN, 3);
        cells.set(Sample::LEVEL, 4);
        (run::LOOP..=run::NO_SLOT).for_each(|reason| cells.drop_run(reason, 5 + reason as u64));
        cells.count_drops(Sample::BAD, 11);
        cells.count_drops(Sample::WORSE, 12);
        let counted = ledger.snapshot().remove(0);
        let all: Vec<(&str, u64)> = (counted.counters().map(|(spec, value)| (spec.name, value)))
            .chain(counted.drops().map(|(spec, value)| (spec.name, value)))
            .collect();
        let expected = [
            ("packets", 1),
            ("batches", 2),
            ("seen", 3),
            ("level", 4),
            ("graph_loop", 5),
            ("unconnected", 6),
            ("unworked", 7),
            ("slot_lost", 8),
            ("graph_replaced", 9),
            ("no_slot", 10),
            ("bad", 11),
            ("worse", 12),
        ];
        assert_eq!(all, expected);
        assert_eq!(counted.dropped(), (5..=12).sum::<u64>());
        assert!(expected.iter().all(|&(name, value)| counted.get(name) == Some(value)));
    }

    #[test]
    fn counters_go_on_by_name_and_class() {
        let mut ledger = Ledger::new();
        ledger.cells(&"a".into(), Sample::SPEC).count(Sample::SEEN, 1);
        ledger.cells(&"a".into(), Sample::SPEC).count(Sample::SEEN, 1);
        ledger.cells(&"b".into(), Sample::SPEC).count(Sample::SEEN, 5);
        assert_eq!(ledger.snapshot()[0].get("seen"), Some(2));
        ledger.cells(&"a".into(), Other::SPEC);
        let classes: Vec<&str> = ledger.snapshot().iter().map(|counted| counted.spec.class).collect();
        assert_eq!(classes, ["Other", "Sample", "Sample"]);
        ledger.retain(|name, _| name == "b");
        let mut second = Ledger::new();
        second.cells(&"b".into(), Sample::SPEC).count(Sample::SEEN, 2);
        let all = sum([&ledger, &second]);
        assert_eq!((all.len(), all[0].get("seen")), (1, Some(7)));
    }
}
