//! Figure 11 with real tables: for each number of nodes and memory per node, the most flows whose GPT and whose share of the
//! FIB fit in a node, found by building both.

use super::cluster;
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::keys::{self, HASHER};
use crate::pin;
use crate::row::Metric;
use crate::sheet::Sheet;
use crate::structures::fewest_partitions;
use rayon::prelude::*;
use scalebricks_console::quantity::{bytes, short_count};
use scalebricks_report::stats::Summary;
use scalebricks_tables::Fib;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::setsep::{Format, Params, SetSep, SetSepBuilder, SetSepReader};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// The name in messages.
const NAME: &str = "Figure 11";

/// Memory per node.
const QUICK_MEMORY: [u64; 1] = [1 << 20];
const MEMORY: [u64; 3] = [16 << 20, 256 << 20, 1 << 30];

/// Numbers of nodes. Between 16 and 17, and 32 and 33, the table gets another value bit.
const QUICK_NODES: [usize; 3] = [1, 4, 17];
const NODES: [usize; 10] = [1, 2, 4, 8, 16, 17, 30, 32, 33, 64];

/// The search ends when the most flows are known to one part in so many.
const PRECISION: u64 = 200;

/// Bytes per flow while tables are built: hash, value, the build's memory and the table.
const FLOW_BYTES: u64 = 9 + 12 + 2;

/// What fits.
#[derive(Debug, Clone, Copy)]
struct Filled {
    node_bytes: u64,
    nodes: usize,
    flows: u64,
    gpt_bytes: u64,
    fib_bytes: u64,
    /// By the closed form, with the bits per flow of these tables.
    computed: f64,
}

/// The search for the most flows that fit, by trying. An estimate says where to try next.
#[derive(Debug)]
struct Search {
    /// So many fit.
    low: u64,
    /// So many do not.
    high: u64,
    /// How far to go if the estimate was wrong; doubled each time.
    stride: u64,
}

impl Search {
    const fn new(low: u64, high: u64) -> Self {
        Self { low, high, stride: high / PRECISION }
    }

    /// How many to try next, or `None` if the answer is known precisely enough. The first tries are just below and just
    /// above the estimate. If both fit or neither does, the next ones go further up or down, at most half the way.
    fn next(&mut self, estimate: u64) -> Option<u64> {
        let Self { low, high, .. } = *self;
        if high - low <= high / PRECISION {
            return None;
        }
        let (gap, middle) = (estimate / PRECISION, u64::midpoint(low, high));
        let around = [estimate - gap / 2, estimate - gap / 2 + gap];
        if let Some(tried) = around.into_iter().find(|&tried| low < tried && tried < high) {
            return Some(tried);
        }
        self.stride *= 2;
        let stride = self.stride / 2;
        Some(if low >= around[1] {
            middle.min(low + stride)
        } else {
            middle.max(high.saturating_sub(stride))
        })
    }
}

/// Bits per flow in full tables, from which the search begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Density<'a> {
    /// Of an entry of a full FIB.
    pub(super) entry_bits: f64,
    /// Of a GPT, by value bits from 1 on; those that are not known are computed.
    pub(super) gpt_bits: &'a [f64],
}

impl Density<'_> {
    /// How many flows fit if the GPT has so many bits per flow, or as many as known.
    #[expect(clippy::cast_sign_loss, reason = "a number of flows is not negative")]
    fn flows(self, node_bytes: u64, nodes: usize, gpt_bits: Option<f64>) -> u64 {
        let known = || self.gpt_bits.get(usize::from(cluster::value_bits(nodes)) - 1).copied();
        let gpt_bits = gpt_bits.or_else(known).unwrap_or_else(|| cluster::whole_gpt_bits(nodes));
        cluster::scalebricks(node_bytes as f64 * 8.0, self.entry_bits, gpt_bits, nodes) as u64
    }
}

impl Filled {
    /// Measures how many flows fit.
    fn most(
        bench: &BenchRun<'_>,
        node_bytes: u64,
        nodes: usize,
        density: Density<'_>,
    ) -> Result<Option<Self>, BenchError> {
        let mut estimate = density.flows(node_bytes, nodes, None);
        let mut search = Search::new(estimate * 7 / 10, estimate * 13 / 10);
        if !bench.fits(search.high, FLOW_BYTES)? {
            return Ok(None);
        }
        let mut best = None;
        while let Some(flows) = search.next(estimate) {
            bench.check()?;
            match Self::fill(node_bytes, nodes, flows)? {
                Some(filled) => {
                    search.low = flows;
                    estimate =
                        density.flows(node_bytes, nodes, Some(filled.gpt_bytes as f64 * 8.0 / flows as f64));
                    best = Some(filled);
                }
                None => search.high = flows,
            }
        }
        ensure(best.is_some(), NAME, || format!("no tables fit in {} a node", bytes(node_bytes)))?;
        Ok(best)
    }

    /// Builds the GPT of so many flows and the FIB of one node, if both fit, and looks up all of the node's flows
    /// in the GPT.
    fn fill(node_bytes: u64, nodes: usize, flows: u64) -> Result<Option<Self>, BenchError> {
        let gpt = if nodes > 1 { Some(gpt(flows, nodes)?) } else { None };
        let gpt_bytes = gpt.as_ref().map_or(0, |gpt| gpt.stats().table_bytes as u64);
        let Some(room) = node_bytes.checked_sub(gpt_bytes).filter(|&room| room > 0) else { return Ok(None) };
        let fib = PartialFib::new(FibConfig::new(HASHER).short_keys_within(room as usize));
        let own = (0..flows).into_par_iter().filter(|&number| node(number, nodes) == 0);
        let (numbers, own): (Vec<u64>, Vec<KeyHash>) = own.map(|number| (number, keys::hash(number))).unzip();
        for (&number, &hash) in numbers.iter().zip(&own) {
            if fib.insert(&keys::flow(number), hash, [number, number]).is_err() {
                return Ok(None);
            }
        }
        if let Some(gpt) = gpt {
            check(gpt, &own)?;
        }
        let fib_bytes = fib.table_bytes() as u64;
        let (entry_bits, gpt_bits) =
            (fib_bytes as f64 * 8.0 / own.len() as f64, gpt_bytes as f64 * 8.0 / flows as f64);
        let computed = cluster::scalebricks(node_bytes as f64 * 8.0, entry_bits, gpt_bits, nodes);
        Ok(Some(Self { node_bytes, nodes, flows, gpt_bytes, fib_bytes, computed }))
    }
}

/// The node of a flow. It does not depend on the hash in the tables.
fn node(number: u64, nodes: usize) -> u8 {
    (keys::mix(number ^ 0x5EED_0F11_0000_0000) % nodes as u64) as u8 // at most 256 nodes
}

fn gpt(flows: u64, nodes: usize) -> Result<SetSep, BenchError> {
    let hashes: Vec<KeyHash> = (0..flows).into_par_iter().map(keys::hash).collect();
    let values: Vec<u8> = (0..flows).into_par_iter().map(|number| node(number, nodes)).collect();
    let params = fewest_partitions(|partitions| {
        Params::for_keys_in(Format::default(), flows, cluster::value_bits(nodes), partitions)
    })?;
    SetSepBuilder::new(params).threads(pin::cores()).build_table(&hashes, &values).of(NAME)
}

/// The GPT names node 0 for all of its flows.
fn check(gpt: SetSep, own: &[KeyHash]) -> Result<(), BenchError> {
    let mut found = vec![u8::MAX; own.len()];
    SetSepReader::new(Arc::new(gpt)).lookup_batch(own, &mut found);
    ensure(found.iter().all(|&node| node == 0), NAME, || "the GPT names another node for a flow")
}

/// Fills tables and adds what fits.
///
/// # Errors
/// [`BenchError`].
pub(super) fn run(bench: &mut BenchRun<'_>, density: Density<'_>) -> Result<(), BenchError> {
    let memory = bench.options.pick(&QUICK_MEMORY[..], &MEMORY);
    let nodes = bench.options.nodes(&QUICK_NODES, &NODES);
    let bar = bench.progress(memory.len() * nodes.len());
    let mut all: Vec<Filled> = Vec::new();
    for &node_bytes in memory {
        for &nodes in &nodes {
            all.extend(Filled::most(bench, node_bytes, nodes, density)?);
            bar.add(1);
        }
    }
    bar.finish();
    for filled in &all {
        let case = bench
            .case("filled", filled.flows)
            .variant(format!("{} a node", bytes(filled.node_bytes)))
            .nodes(filled.nodes)
            .table_bytes(filled.gpt_bytes);
        bench.add(case, Metric::Flows, Summary::exact(filled.flows as f64));
    }
    let one = |filled: &Filled| {
        let alone = all.iter().find(|other| (other.node_bytes, other.nodes) == (filled.node_bytes, 1));
        alone.map_or_else(String::new, |alone| format!("{:.2}×", filled.flows as f64 / alone.flows as f64))
    };
    let sheet = Sheet::new("figure-11-filled", all.iter().copied())
        .column("memory a node", |filled| bytes(filled.node_bytes))
        .column("nodes", |filled| filled.nodes)
        .keys()
        .column("flows that fit", |filled| short_count(filled.flows))
        .column("GPT", |filled| bytes(filled.gpt_bytes))
        .column("FIB of a node", |filled| bytes(filled.fib_bytes))
        .column("over one node", one)
        .column("over the closed form", |filled| format!("{:.3}", filled.flows as f64 / filled.computed));
    bench.add_table(sheet);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_search_ends_near_the_answer_after_few_tries() {
        // The estimate is right, wrong by three per cent, or wrong by more than the search allows for.
        for (answer, estimate, most) in
            [(1_000_000, 1_000_000, 2), (970_000, 1_000_000, 7), (1_290_000, 1_000_000, 11)]
        {
            let mut search = Search::new(700_000, 1_300_000);
            let mut tries = 0;
            while let Some(tried) = search.next(estimate) {
                if tried <= answer {
                    search.low = tried;
                } else {
                    search.high = tried;
                }
                tries += 1;
            }
            assert!(
                search.low <= answer && answer < search.high && search.high - search.low <= 6_500,
                "{search:?}"
            );
            assert!(tries <= most, "{tries} for {answer}");
        }
    }

    #[test]
    fn what_fits_is_what_the_closed_form_says() {
        let bench = BenchRun::for_test("capacity", Options { quick: true, ..Options::default() });
        let density = Density { entry_bits: 272.0, gpt_bits: &[] };
        let alone = Filled::most(&bench, 1 << 20, 1, density).unwrap().unwrap();
        let eight = Filled::most(&bench, 1 << 20, 8, density).unwrap().unwrap();
        for filled in [alone, eight] {
            assert!(filled.gpt_bytes + filled.fib_bytes <= 1 << 20, "{filled:?}");
            let share = filled.flows as f64 / filled.computed;
            assert!((0.97..1.01).contains(&share), "{share} {filled:?}");
        }
        assert!(eight.flows > 5 * alone.flows, "{eight:?} {alone:?}");
        assert!(Filled::fill(1 << 20, 8, 2 * eight.flows).unwrap().is_none());
    }
}
