//! Figure 11: flows that fit by number of nodes, in closed form and with the sizes of real tables.

use super::{cluster, filled, paper};
use crate::bench_run::BenchRun;
use crate::benches::build;
use crate::error::BenchError;
use crate::keys::{self, HASHER, KeySet};
use crate::pin;
use crate::row::Metric;
use crate::structures::{BuildConfig, Structure};
use scalebricks_console::quantity::bytes;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::Summary;
use scalebricks_tables::Fib;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::setsep::Format;

/// Memory per node.
const NODE_BYTES: u64 = 16 << 20;

/// Maximum nodes.
const NODES: usize = 64;

/// Numbers of nodes in the page's table.
const TABLE_NODES: [usize; 11] = [1, 2, 3, 4, 8, 16, 17, 30, 32, 33, 64];

/// Bytes per key while building.
const KEY_BYTES: u64 = 24 + 40;

/// How a cluster stores flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    FullCopies,
    HashPartition,
    /// ScaleBricks with the table size of the paper's formula.
    Formula,
    /// ScaleBricks with the size of a real table.
    Table,
}

/// Counts the flows that fit for one layout.
struct FlowCount<'a> {
    layout: Layout,
    name: String,
    mark: Mark,
    colour: usize,
    entry_bits: f64,
    flows: Box<dyn Fn(usize) -> f64 + 'a>,
}

/// Measures bits per key of tables and FIB, and computes the number of flows from them.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let formats = bench.options.formats();
    let most = cluster::value_bits(NODES);
    let mut gpt_bits: Vec<(Format, Vec<f64>)> =
        formats.into_iter().map(|format| (format, Vec::new())).collect();
    let keys = bench.options.first_keys(1_000_000, 4_000_000);
    if !bench.fits(keys, KEY_BYTES)? {
        return Ok(());
    }
    for value_bits in 1..=most {
        let set = KeySet::new(keys, value_bits);
        for (format, bits) in &mut gpt_bits {
            bench.check()?;
            let busy = bench.busy("building");
            let make = BuildConfig { format: *format, threads: pin::cores(), ..BuildConfig::table() };
            let mut prepared = Structure::SetSep.prepare(&set, make)?;
            let (table, _) = build::build(&mut prepared, make.threads)?;
            let found = table.table_bytes() as f64 * 8.0 / keys as f64;
            bits.push(found);
            drop(busy);
            let case = bench
                .case(Structure::SetSep.name(), keys)
                .format(format.name())
                .value_bits(value_bits)
                .table_bytes(table.table_bytes());
            bench.add(case, Metric::BitsPerKey, Summary::exact(found));
        }
    }
    let (fib_keys, fib_bytes) = fill_fib();
    let entry_bits = fib_bytes as f64 * 8.0 / fib_keys as f64;
    let case = bench.case("fib", fib_keys).table_bytes(fib_bytes as u64);
    bench.add(case, Metric::BitsPerKey, Summary::exact(entry_bits));
    show(bench, &gpt_bits, entry_bits);
    let known = gpt_bits.iter().find(|(format, _)| *format == Format::default());
    let gpt_bits = known.map(|(_, bits)| bits.as_slice()).unwrap_or_default();
    filled::run(bench, filled::Density { entry_bits, gpt_bits })
}

/// Fills an exact table within a node's memory until it refuses a flow; returns keys and bytes.
fn fill_fib() -> (u64, usize) {
    let fib = PartialFib::new(FibConfig::new(HASHER).short_keys_within(NODE_BYTES as usize));
    let mut number = 0;
    loop {
        let flow = keys::flow(number);
        if fib.insert(&flow, HASHER.hash(&flow), [number, number]).is_err() {
            return (number.max(1), fib.table_bytes());
        }
        number += 1;
    }
}

/// Bits per key of a format for this many nodes; NaN if not measured.
fn measured(bits: &[f64], nodes: usize) -> f64 {
    bits.get(usize::from(cluster::value_bits(nodes)) - 1).copied().unwrap_or(f64::NAN)
}

fn show(bench: &mut BenchRun<'_>, gpt_bits: &[(Format, Vec<f64>)], entry_bits: f64) {
    let counts = counts(gpt_bits, paper::ENTRY_BITS);
    let memory = bytes(NODE_BYTES);
    let x = ("nodes", Scale::Doublings);
    let mut chart = Chart::new(
        "figure-11",
        &format!("Flows that fit in {memory} a node, entries of {} bits", paper::ENTRY_BITS),
        x,
        ("million flows", Scale::Decades),
    );
    for count in &counts {
        let points = (1..=NODES).map(|nodes| Point::exact(nodes as u32, (count.flows)(nodes) / 1e6));
        chart.series.push(Series::new(&count.name, count.mark, count.colour, points.collect()));
    }
    bench.add_chart(chart);
    let real = self::counts(gpt_bits, entry_bits);
    for (name, what, of) in [
        ("figure-11-gain", format!("entries of {} bits", paper::ENTRY_BITS), &counts),
        ("figure-11-gain-real", "entries as large as ours".to_owned(), &real),
    ] {
        let title = format!("Flows of a cluster over those of full copies, {what}");
        let mut chart = Chart::new(name, &title, x, ("times as many", Scale::Linear));
        for count in of.iter().filter(|count| has_gain(count)) {
            let points = (1..=NODES).map(|nodes| Point::exact(nodes as u32, gain(count, nodes)));
            chart.series.push(Series::new(&count.name, count.mark, count.colour, points.collect()));
        }
        bench.add_chart(chart);
    }
    tabulate(bench, &counts, &real, entry_bits);
    conclude(bench, &counts);
}

/// States the largest gain of the formula and of the default format, and the paper's number.
fn conclude(bench: &mut BenchRun<'_>, counts: &[FlowCount<'_>]) {
    let most = |name: &str| {
        let count = counts.iter().find(|count| count.name == name)?;
        let gains = (1..=NODES).map(|nodes| (gain(count, nodes), nodes));
        gains.filter(|(gain, _)| gain.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let ours = format!("SetSep {}", Format::default());
    if let (Some((formula, at)), Some((ours, of))) = (most("by the formula"), most(&ours)) {
        let sentence = format!(
            "With 64-bit entries the formula gains {formula:.2} times at the most, at {at} nodes, and the bits of our default format {ours:.2}, \
             at {of}; the paper prints up to {} (S3).",
            paper::PRINTED_CAPACITY_GAIN,
        );
        bench.add_conclusion("figure-11-conclusion", sentence);
    }
}

#[expect(clippy::cast_sign_loss, reason = "a number of flows is not negative")]
fn tabulate(bench: &mut BenchRun<'_>, counts: &[FlowCount<'_>], real: &[FlowCount<'_>], entry_bits: f64) {
    let mut heads = vec!["nodes".to_owned()];
    let with = |count: &FlowCount<'_>| format!("{}, {:.0}-bit entries", count.name, count.entry_bits);
    heads.extend(counts.iter().chain(real).filter(|count| has_gain(count)).map(with));
    let mut sheet = PageTable { heads, ..PageTable::new("figure-11-gain", &[]) };
    for nodes in TABLE_NODES {
        let mut cells = vec![nodes.to_string()];
        for count in counts.iter().chain(real).filter(|count| has_gain(count)) {
            cells.push(format!("{:.2}×", gain(count, nodes)));
        }
        sheet.rows.push(cells);
        for count in counts.iter().chain(real) {
            let flows = (count.flows)(nodes);
            let variant = Some(format!("{nodes} nodes, {:.0}-bit entries", count.entry_bits));
            let case = bench.case(&count.name, flows as u64).variant(variant);
            bench.add(case, Metric::Flows, Summary::exact(flows));
        }
    }
    bench.add_table(sheet);
    let mut sheet = PageTable::new("capacity-sizes", &["what", "bits"]);
    sheet.rows.push(vec!["FIB entry, the paper's counting".to_owned(), paper::ENTRY_BITS.to_string()]);
    let text = "FIB entry here: 16-byte key, 16-byte state, table full".to_owned();
    sheet.rows.push(vec![text, format!("{entry_bits:.0}")]);
    bench.add_table(sheet);
}

/// Whether the table shows its gain. Full copies always have 1, hash partitioning has the number of nodes,
/// and the formula applies to the paper's entries.
fn has_gain(count: &FlowCount<'_>) -> bool {
    match count.layout {
        Layout::FullCopies | Layout::HashPartition => false,
        Layout::Formula => count.entry_bits <= paper::ENTRY_BITS,
        Layout::Table => true,
    }
}

/// Flows relative to full copies.
fn gain(count: &FlowCount<'_>, nodes: usize) -> f64 {
    (count.flows)(nodes) / cluster::full_copy(NODE_BYTES as f64 * 8.0, count.entry_bits)
}

/// All layouts of a cluster for one entry size.
fn counts<'a>(gpt_bits: &'a [(Format, Vec<f64>)], entry_bits: f64) -> Vec<FlowCount<'a>> {
    let memory = NODE_BYTES as f64 * 8.0;
    let count = |layout, name: &str, mark, colour, flows: Box<dyn Fn(usize) -> f64 + 'a>| FlowCount {
        layout,
        name: name.to_owned(),
        mark,
        colour,
        entry_bits,
        flows,
    };
    let of = move |bits: f64, nodes| cluster::scalebricks(memory, entry_bits, bits, nodes);
    let mut counts = vec![
        count(
            Layout::FullCopies,
            "full copies",
            Mark::Line,
            7,
            Box::new(move |_| cluster::full_copy(memory, entry_bits)),
        ),
        count(
            Layout::HashPartition,
            "hash partitioning",
            Mark::Dashes,
            7,
            Box::new(move |nodes| cluster::hash_partition(memory, entry_bits, nodes)),
        ),
        count(
            Layout::Formula,
            "by the formula",
            Mark::Line,
            1,
            Box::new(move |nodes| of(cluster::ideal_gpt_bits(nodes), nodes)),
        ),
        count(
            Layout::Formula,
            "by the formula, whole bits",
            Mark::Dashes,
            1,
            Box::new(move |nodes| of(cluster::whole_gpt_bits(nodes), nodes)),
        ),
    ];
    for (format, colour) in [(Format::Paper16x8, 5), (Format::Linear, 0), (Format::Dense, 2)] {
        if let Some((_, bits)) = gpt_bits.iter().find(|(held, _)| *held == format) {
            let name = format!("SetSep {format}");
            counts.push(count(
                Layout::Table,
                &name,
                Mark::Line,
                colour,
                Box::new(move |nodes| of(measured(bits, nodes), nodes)),
            ));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_of_the_formula_is_in_the_chart() {
        let bits = [(Format::Linear, vec![1.8, 3.2, 4.6, 6.0, 7.3, 8.7])];
        let counts = counts(&bits, paper::ENTRY_BITS);
        let of = |name: &str| counts.iter().find(|count| count.name == name).unwrap();
        for (nodes, want) in [(4, 3.28), (8, 4.92), (16, 6.10), (32, 6.40)] {
            let got = gain(of("by the formula"), nodes);
            assert!((got - want).abs() < 0.01, "{nodes} nodes: {got}");
        }
        assert!((gain(of("full copies"), 16) - 1.0).abs() < 1e-12);
        assert!((gain(of("hash partitioning"), 16) - 16.0).abs() < 1e-12);
        let linear = gain(of("SetSep linear"), 16);
        assert!((linear - 16.0 / (1.0 + 6.0 * 16.0 / 64.0)).abs() < 1e-9, "{linear}");
    }

    #[test]
    fn a_full_fib_takes_a_little_more_than_its_entries() {
        let (keys, bytes) = fill_fib();
        let bits = bytes as f64 * 8.0 / keys as f64;
        assert!(bytes as u64 <= NODE_BYTES && (256.0..300.0).contains(&bits), "{bits}");
    }
}
