//! Figure 9: packets per second from port to port on one core. Bare tables read and look up the 64-bit name
//! of each packet, write its next hop, and send it to the port of its action. Then the whole switch does the
//! same by MAC address, with all its checks and counters. Figures 10 and 11, over real ports, are in
//! `dpdk_links` (feature `dpdk`).
//!
//! Packets stay in memory and rotate: the port that takes a packet gives it another name and appends it to
//! the queue, inline. The cost of that is measured in the same round and subtracted, as in the gateway
//! benchmark.

#[cfg(feature = "dpdk")]
pub mod dpdk_links;
mod forwarders;
#[cfg(feature = "dpdk")]
mod link_ends;
mod rotation;

use super::fibs::{Fib, FibReader, NameFib};
use super::{megabytes, millions, names, paper};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, ensure};
use crate::gateway::packet_ring::ROTATION;
use crate::gateway::packet_slab::{Slab, SlabPacket};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart};
use crate::{pin, timing};
use forwarders::{SwitchMode, forward, idle, switch, turn};
use rotation::{Expected, Hosts, Rotation, rotation};
use scalebricks_console::quantity::short_count;
use scalebricks_elements::flat::FlatFib;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_report::exhibit::Scale;
use std::sync::Arc;

/// Frame length in bytes.
const OCTETS: usize = 64;
/// Bytes per name for all tables of one size. Most of it is the control side of the switch while its table is
/// built.
const NAME_BYTES: u64 = 600;
const STRUCTURES: [Fib; 5] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo, Fib::Orthogonal, Fib::Sorted];
/// Variant of the rows.
const VARIANT: &str = "forwarding, frames of 64 bytes";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let value_bits = bench.options.first_value_bits(8);
    for names in bench.sizes(&[262_144], &[262_144, 1_000_000, 4_000_000], NAME_BYTES)? {
        ForwardingSetup::new(bench, names, value_bits)?.measure(bench)?;
    }
    show(bench);
    Ok(())
}

/// Measures Figures 10 and 11 if DPDK is available.
///
/// # Errors
/// [`BenchError`].
pub fn run_links(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    #[cfg(feature = "dpdk")]
    return dpdk_links::run(bench);
    #[cfg(not(feature = "dpdk"))]
    {
        bench.console.note(
            "concise: figures 10 and 11 are skipped: this program was built without DPDK (--features dpdk)",
        );
        Ok(())
    }
}

/// Packets in memory.
type Packets = Rotation<SlabPacket>;

/// The tables of one size that packets pass through.
struct ForwardingSetup {
    hosts: Arc<Hosts>,
    /// Bare tables, and the names for which each may return a wrong action, because several fit.
    tables: Vec<(Fib, Box<dyn NameFib>, usize)>,
    switches: Vec<(SwitchMode, Arc<FlatFib>)>,
}

impl ForwardingSetup {
    /// Builds all tables.
    fn new(bench: &BenchRun<'_>, names: u64, value_bits: u8) -> Result<Self, BenchError> {
        let _busy = bench.busy("building");
        let hosts = Arc::new(Hosts::new(names, value_bits));
        let (mut tables, mut switches) = (Vec::new(), Vec::new());
        for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
            bench.check()?;
            let table = fib.build(&hosts.set, pin::cores())?;
            let ambiguous = hosts.set.hashes.iter().filter(|&&name| table.is_ambiguous(name)).count();
            tables.push((fib, table, ambiguous));
        }
        for mode in SwitchMode::ALL {
            bench.check()?;
            switches.push((mode, mode.fib(&hosts)?));
        }
        Ok(Self { hosts, tables, switches })
    }

    fn case(&self, bench: &BenchRun<'_>, structure: &str, fib: Option<Fib>, variant: &str) -> Case {
        bench
            .case(structure, self.hosts.set.len() as u64)
            .format(fib.and_then(Fib::format))
            .variant(variant.to_owned())
            .value_bits(self.hosts.set.value_bits)
            .threads(1)
            .batch(BURST)
    }

    /// Measures all tables with packets in memory.
    fn measure(&self, bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
        let mut rotation = rotation(Slab::new(ROTATION).packets, &self.hosts, OCTETS);
        let packets = bench.options.pick(50_000, 2_000_000);
        let names = self.hosts.set.len();
        // The time of the bare loop in this round, which is subtracted.
        let bare = &std::cell::Cell::new(0.0_f64);
        let time = |seconds: f64| seconds * 1e9 / (packets / BURST * BURST) as f64;
        let net = move |seconds: f64, rotation: &Packets| -> Result<RunResult, BenchError> {
            if bare.get().is_nan() {
                bare.set(time(timing::pinned(|| idle(rotation, packets))?.1));
            }
            // If nothing remains, either time may have been disturbed: the next try measures both again.
            let net = timing::net("forwarding", time(seconds), bare.get());
            let net = net.inspect_err(|_| bare.set(f64::NAN))?;
            Ok(vec![net, 1e9 / net].into())
        };
        let case = |structure: &str, fib, bytes: u64| {
            let case = self.case(bench, structure, fib, VARIANT).table_bytes(bytes);
            vec![(case.clone(), Metric::PacketTime), (case, Metric::PacketRate)]
        };
        let alone = self.case(bench, "generator and sink", None, VARIANT);
        let mut turns = vec![Measurement::new(alone, Metric::PacketTime, move |rotation: &mut Packets| {
            bare.set(time(timing::pinned(|| idle(rotation, packets))?.1));
            Ok(bare.get().into())
        })];
        for (fib, table, ambiguous) in &self.tables {
            verify_table(*fib, table.reader(), &rotation, (names, *ambiguous))?;
            let rows = case(fib.name(), Some(*fib), table.table_bytes());
            turns.push(Measurement::several(rows, move |rotation: &mut Packets| {
                net(timing::pinned(|| forward(rotation, table.reader(), packets))?.1, rotation)
            }));
        }
        for (mode, fib) in &self.switches {
            verify_switch(*mode, fib, &rotation, names)?;
            let mut switch = switch(fib, &rotation)?;
            let rows = case(mode.name(), None, fib.table_bytes() as u64);
            turns.push(Measurement::several(rows, move |rotation: &mut Packets| {
                net(timing::pinned(|| turn(&mut switch, rotation, packets))?.1, rotation)
            }));
        }
        interleave(bench, &mut rotation, turns)
    }
}

/// Sends every name and the whole rotation once and checks each packet. Only packets of ambiguous names may
/// be wrong.
fn verify<P: PacketBuf>(
    structure: &str,
    expected: Expected,
    packets: &Rotation<P>,
    (names, ambiguous): (usize, usize),
    moving: impl FnOnce(usize),
) -> Result<(), BenchError> {
    let count = (names + ROTATION).next_multiple_of(BURST);
    let (verified, right) = rotation::verify(packets, expected, || moving(count));
    let least = count - count.min(ambiguous * count.div_ceil(names.max(1)));
    let is_right = right >= least && (verified, packets.len()) == (count, ROTATION);
    ensure(is_right, structure, || {
        format!(
            "of {count} packets {verified} came out, {right} of them where and as they should; {} of {ROTATION} are left",
            packets.len()
        )
    })
}

fn verify_table<P: PacketBuf>(
    fib: Fib,
    reader: FibReader<'_>,
    rotation: &Rotation<P>,
    names: (usize, usize),
) -> Result<(), BenchError> {
    verify(fib.name(), Expected::Rewritten, rotation, names, |packets| forward(rotation, reader, packets))
}

fn verify_switch<P: PacketBuf + 'static>(
    mode: SwitchMode,
    fib: &FlatFib,
    rotation: &Rotation<P>,
    names: usize,
) -> Result<(), BenchError> {
    let mut switch = switch(fib, rotation)?;
    verify(mode.name(), mode.rule(), rotation, (names, 0), |packets| turn(&mut switch, rotation, packets))
}

fn show(bench: &mut BenchRun<'_>) {
    let rows: Vec<Row> = bench.rows().iter().variant(VARIANT).cloned().collect();
    let rates = || rows.iter().metric(Metric::PacketRate);
    let of = |structure: &str, names: u64| rates().structure(structure).keys(names).next();
    let bytes = |row: &Row| row.case.table_bytes.unwrap_or(0);
    let compared = |one: &Row, other: &Row| {
        let memory = 100.0 * bytes(one) as f64 / (bytes(other) as f64).max(1.0);
        format!("{:.1} times the rate and {memory:.0} % of the memory", one.median / other.median)
    };
    let sheet = Sheet::new("concise-figure-9", rates())
        .column("names", names)
        .column("structure", |row| row.case.structure.clone())
        .column("ns a packet", |row| {
            row.beside(&rows, Metric::PacketTime).map(|time| time.spread(1.0, 1)).unwrap_or_default()
        })
        .column("Mpps", |row| millions(row))
        .column("MB", |row| megabytes(bytes(row)))
        .column("paper: Concise has", |row| paper::forwarding(&row.case.structure, row.case.keys))
        .column("othello has", |row| {
            let own = of("othello", row.case.keys).filter(|_| row.case.structure != "othello");
            own.map(|own| compared(own, row)).unwrap_or_default()
        });
    let title = "Packets of 64-bit names forwarded a second, one core, without generator and sink";
    let (x, y) = (("names", Scale::Doublings), ("million packets a second", Scale::Linear));
    let points = rates().map(|row| (row.case.structure.clone(), row.point(row.case.keys as f64, 1e6)));
    let chart = chart("concise-figure-9", title, x, y, points);
    let largest = rows.iter().map(|row| row.case.keys).filter(|&names| names < 2_000_000).max();
    if let Some(own) = largest.and_then(|names| of("othello", names)) {
        let names = own.case.keys;
        let beside = ["cuckoo", "orthogonal", "binary-search"]
            .into_iter()
            .filter_map(|structure| Some(format!("{} of {structure}", compared(own, of(structure, names)?))));
        let sentence = format!(
            "With {} names of 64 bits, Othello has {}; the paper says 2 times the rate of cuckoo, 4 times that of orthogonal \
             filters, and 10–20 % of the memory of each.",
            short_count(names),
            beside.collect::<Vec<_>>().join(", ")
        );
        bench.add_conclusion("concise-figure-9-conclusion", sentence);
    }
    bench.add_table(sheet);
    bench.add_chart(chart);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_where_their_names_say() {
        let hosts = Arc::new(Hosts::new(1000, 5));
        for octets in [64, 1500] {
            let rotation = rotation(Slab::new(ROTATION).packets, &hosts, octets);
            for fib in STRUCTURES {
                let table = fib.build(&hosts.set, 1).unwrap();
                let ambiguous = hosts.set.hashes.iter().filter(|&&name| table.is_ambiguous(name)).count();
                assert!(ambiguous < 10, "{}: {ambiguous}", fib.name());
                verify_table(fib, table.reader(), &rotation, (1000, ambiguous)).unwrap();
            }
            for mode in SwitchMode::ALL {
                verify_switch(mode, &mode.fib(&hosts).unwrap(), &rotation, 1000).unwrap();
            }
            assert!(
                verify_table(Fib::OTHELLO, Box::new(|_, actions| actions.fill(3)), &rotation, (1000, 0))
                    .is_err()
            );
            assert_eq!(rotation.len(), ROTATION, "none is lost");
        }
    }

    #[test]
    fn a_switch_that_does_something_else_is_found_out() {
        let (hosts, others) = (Arc::new(Hosts::new(1000, 5)), Hosts::new(900, 5));
        let make = || rotation(Slab::new(ROTATION).packets, &hosts, 64);
        let routes = SwitchMode::Routes.fib(&hosts).unwrap();
        assert!(verify_switch(SwitchMode::Forwards, &routes, &make(), 1000).is_err(), "routed instead");
        let fewer = SwitchMode::Forwards.fib(&others).unwrap();
        assert!(
            verify_switch(SwitchMode::Forwards, &fewer, &make(), 1000).is_err(),
            "not known: flooded, or dropped"
        );
    }
}
