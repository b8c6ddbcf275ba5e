//! `scalebricks stats`: formats counters, or their rates between two samples.

use super::{list, right, status, table, trimmed};
use crate::model::{DEVICE_COUNTERS, NodeCounters, PortCounters, Stats};
use comfy_table::Cell;
use scalebricks_apps::gateway::counters::COUNTERS;
use scalebricks_cluster::moved::{MOVED_COUNTERS, MovedCounter};
use scalebricks_console::quantity::{count, short_count};
use std::time::Duration;

/// Two samples of the same counters.
pub struct Samples<'a, T> {
    /// The newest values.
    pub now: &'a T,
    /// The previous values, if any.
    pub before: Option<&'a T>,
    /// The time between them.
    pub time: Duration,
}

impl<'a, T> Samples<'a, T> {
    /// The total of a counter, or its rate per second.
    fn cell(&self, pick: impl Fn(&T) -> u64) -> Cell {
        right(self.text(pick))
    }

    /// The same as text.
    pub fn text(&self, pick: impl Fn(&T) -> u64) -> String {
        match self.before {
            None => count(pick(self.now)),
            Some(before) => {
                // A smaller value than before means that the node was restarted.
                let counted = u128::from(pick(self.now).saturating_sub(pick(before)));
                let tenths = counted * 10_000 / self.time.as_millis().max(1);
                match u64::try_from(tenths).unwrap_or(u64::MAX) {
                    tenths @ 1..100 => format!("{}.{}/s", tenths / 10, tenths % 10),
                    tenths => format!("{}/s", short_count(tenths / 10)),
                }
            }
        }
    }

    fn of<U>(&self, part: impl Fn(&'a T) -> &'a U) -> Samples<'a, U> {
        Samples { now: part(self.now), before: self.before.map(part), time: self.time }
    }
}

pub(super) fn render(stats: &Stats, before: Option<&Stats>) -> String {
    let seconds = before.map_or(0.0, |before| stats.uptime_s - before.uptime_s);
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let samples = Samples { now: stats, before, time };
    let heading = match before {
        None => format!("counted in {}", status::time(stats.uptime_s)),
        Some(_) => format!("up {}, per second over the last {seconds:.1} s", status::time(stats.uptime_s)),
    };
    let total = samples.of(|stats| &stats.total);
    let mut parts = vec![heading, packets(&total), rare(&total), drops(&total)];
    if !stats.ports.is_empty() {
        parts.push(ports(&samples));
    }
    if !stats.workers.is_empty() {
        parts.push(status::workers(stats.workers.iter().map(|worker| &worker.worker)));
    }
    parts.push(moved(&samples));
    parts.push(slow_path(&samples));
    let pool = stats.pool;
    parts.push(list(&[("buffers", format!("{} free, {} in use", count(pool.free), count(pool.in_use)))]));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn packets(samples: &Samples<'_, NodeCounters>) -> String {
    let mut table = table(["packets", "in", "out"]);
    let of = |port: &str, direction: &str| {
        let spec = COUNTERS.iter().find(|spec| spec.labels == [("port", port), ("direction", direction)]);
        samples.cell(|counters| spec.map_or(0, |spec| counters.get(spec.name)))
    };
    let ports = COUNTERS.iter().filter_map(|spec| match spec.labels {
        [("port", port), ("direction", "in")] => Some(*port),
        _ => None,
    });
    for port in ports {
        table.add_row(vec![Cell::new(port), of(port, "in"), of(port, "out")]);
    }
    trimmed(&table)
}

/// Rare events, shown only if they happened.
fn rare(samples: &Samples<'_, NodeCounters>) -> String {
    let happened = samples.now.iter().filter(|(_, count)| *count > 0);
    let seldom = happened.filter_map(|(spec, _)| Some((spec.seldom?, spec)));
    list(&seldom.map(|(words, spec)| (words, samples.text(|c| c.get(spec.name)))).collect::<Vec<_>>())
}

fn drops(samples: &Samples<'_, NodeCounters>) -> String {
    let happened: Vec<&String> =
        samples.now.dropped.iter().filter(|(_, count)| **count > 0).map(|(reason, _)| reason).collect();
    if happened.is_empty() {
        return "nothing dropped".to_owned();
    }
    let mut table = table(["dropped", "packets"]);
    for reason in happened {
        let pick = |c: &NodeCounters| c.dropped.get(reason).copied().unwrap_or(0);
        table.add_row(vec![Cell::new(reason), samples.cell(pick)]);
    }
    table.add_row(vec![Cell::new("all"), samples.cell(NodeCounters::dropped_total)]);
    trimmed(&table)
}

fn ports(samples: &Samples<'_, Stats>) -> String {
    let mut columns: Vec<&str> = DEVICE_COUNTERS.iter().map(|counter| counter.column).collect();
    columns.dedup();
    let head: Vec<&str> = std::iter::once("device").chain(columns.iter().copied()).collect();
    let mut table = table(head);
    let of = |port: &PortCounters, column: &str| {
        let added = DEVICE_COUNTERS.iter().filter(|counter| counter.column == column);
        added.map(|counter| (counter.value)(port)).sum()
    };
    for port in &samples.now.ports {
        let cells = columns.iter().map(|column| {
            let other = |stats: &Stats| stats.ports.iter().find(|other| other.role == port.role).copied();
            samples.cell(|stats| other(stats).map_or(0, |port| of(&port, column)))
        });
        table.add_row(std::iter::once(Cell::new(port.role)).chain(cells).collect::<Vec<_>>());
    }
    trimmed(&table)
}

/// Counters of flows that left the node, shown only if they are not zero.
fn moved(samples: &Samples<'_, Stats>) -> String {
    let of = |stats: &Stats, counter: &MovedCounter| stats.moved_counters.as_ref().map_or(0, counter.value);
    let happened = MOVED_COUNTERS.iter().filter(|counter| of(samples.now, counter) > 0);
    let rows = happened.filter_map(|counter| Some((counter.row?, samples.text(|stats| of(stats, counter)))));
    list(&rows.collect::<Vec<_>>())
}

fn slow_path(samples: &Samples<'_, Stats>) -> String {
    let happened = samples.now.slow_path.iter().filter(|(_, count)| **count > 0);
    let rows: Vec<_> = happened
        .map(|(event, _)| {
            (event.as_str(), samples.text(|stats| stats.slow_path.get(event).copied().unwrap_or(0)))
        })
        .collect();
    list(&rows)
}
