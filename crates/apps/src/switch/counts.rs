//! Counters of a switch's ports, from its elements' declarations.

use super::text::PortNames;
use super::wiring::port_of;
use scalebricks_elements::flat;
use scalebricks_graph::spec::{CounterSpec, DropSpec, RUN_COUNTERS, RUN_DROPS};
use scalebricks_graph::{CounterSnapshot, Spec};
use scalebricks_io::Packet;
use std::collections::BTreeMap;

/// Counters and drops of a port, by name. Frames count at their input port; drops by an output count at that output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCounts {
    counters: BTreeMap<&'static str, u64>,
    drops: BTreeMap<&'static str, u64>,
}

fn specs() -> [&'static Spec; 4] {
    flat::specs::<Packet>()
}

/// A port's counters, without drops.
pub fn counters() -> impl Iterator<Item = &'static CounterSpec> {
    specs().into_iter().flat_map(|spec| spec.counters)
}

/// Drop reasons of frames, including the runner's.
pub fn drops() -> impl Iterator<Item = &'static DropSpec> {
    let own = specs().into_iter().flat_map(|spec| spec.drops);
    RUN_DROPS.iter().chain(own)
}

impl Default for PortCounts {
    /// All zero.
    fn default() -> Self {
        Self { counters: counters().map(|spec| (spec.name, 0)).collect(), drops: BTreeMap::new() }
    }
}

impl PortCounts {
    /// A counter or drop reason; 0 if nothing was counted.
    pub fn get(&self, name: &str) -> u64 {
        let count = self.counters.get(name).or_else(|| self.drops.get(name));
        count.copied().unwrap_or_default()
    }

    /// All counters, without drops.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counters.iter().map(|(name, count)| (*name, *count))
    }

    /// Reasons that occurred, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.drops.iter().map(|(name, count)| (*name, *count)).filter(|(_, count)| *count > 0)
    }

    /// The sum of all drops.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    fn add(&mut self, counted: &CounterSnapshot) {
        for (spec, count) in counted.counters().skip(RUN_COUNTERS.len()) {
            *self.counters.entry(spec.name).or_default() += count;
        }
        for (spec, count) in counted.drops() {
            *self.drops.entry(spec.name).or_default() += count;
        }
    }
}

/// Counters by port, from the counters of its workers' elements.
pub fn by_port(counted: &[CounterSnapshot], ports: &PortNames) -> Vec<PortCounts> {
    let of = |port: &String| {
        let mut counts = PortCounts::default();
        let elements = counted.iter().filter(|counted| port_of(&counted.element) == Some(port));
        elements.for_each(|counted| counts.add(counted));
        counts
    };
    ports.all().iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_name_means_one_thing_throughout() {
        let mut means: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
        for spec in counters() {
            means.entry(spec.name).or_default().insert(spec.doc);
        }
        assert!(means.values().all(|docs| docs.len() == 1), "{means:?}");
        let counters: HashSet<_> = means.into_keys().collect();
        assert!(drops().all(|spec| !counters.contains(spec.name)));
    }
}
