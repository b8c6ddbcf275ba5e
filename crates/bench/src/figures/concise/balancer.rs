//! Unknown names as new flows: the table's arbitrary answers make a weighted choice of backends.

use super::paper;
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::sheet::Sheet;
use scalebricks_console::quantity::short_count;
use scalebricks_tables::WeightedActions;
use scalebricks_tables::othello::{OthelloBuilder, OthelloReader, Params};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;

/// Target weights of the backends for new flows.
const WEIGHTS: [u32; 5] = [8, 4, 2, 1, 1];
/// Bits per code.
const VALUE_BITS: u8 = 8;
const NAME: &str = "othello";

/// Measures the shares of the backends.
///
/// # Errors
/// [`BenchError`], also if a flow changes its backend.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let names = bench.options.first_keys(50_000, 500_000);
    let busy = bench.busy("installing flows");
    let shares = balance(names as usize)?;
    drop(busy);
    let (total, new) = (WEIGHTS.iter().sum::<u32>(), shares.iter().sum::<u64>());
    let percent = |some: f64, all: f64| format!("{:.2} %", 100.0 * some / all);
    let sheet = Sheet::new("concise-balancer", WEIGHTS.iter().zip(&shares).enumerate())
        .column("known flows", |_| short_count(names))
        .column("new flows", |_| short_count(new))
        .column("backend", |(backend, _)| *backend)
        .column("weight", |(_, (weight, _))| **weight)
        .column("paper", |_| paper::NOT_GIVEN)
        .column("asked", |(_, (weight, _))| percent(f64::from(**weight), f64::from(total)))
        .column("known flows alike: measured", |(_, (_, got))| percent(**got as f64, new.max(1) as f64))
        .column("installed, then moved", |_| 0);
    bench.add_table(sheet);
    Ok(())
}

/// Installs as many new flows as there are known ones, each at the backend that the table returns for it.
/// Returns the number of new flows per backend. All known flows are on the last backend, which must not
/// affect the shares.
fn balance(known: usize) -> Result<Vec<u64>, BenchError> {
    let backends = WeightedActions::new(&WEIGHTS, VALUE_BITS, 1).of(NAME)?;
    let flows = Kind::Mac.hashes(0, 2 * known);
    let pinned = (WEIGHTS.len() - 1) as u16;
    let actions = flows[..known].iter().map(|&flow| backends.value(flow, pinned).unwrap_or(0)).collect();
    let set = Population { value_bits: VALUE_BITS, hashes: flows[..known].to_vec(), actions };
    let params = Params::for_keys(2 * known as u64, VALUE_BITS, PartitionCount::ONE).of(NAME)?;
    let mut control = OthelloBuilder::new(params).threads(pin::cores()).build(&set.pairs()).of(NAME)?;
    let table = Arc::new(control.export());
    let mut reader = OthelloReader::new(Arc::clone(&table));
    let mut shares = vec![0; WEIGHTS.len()];
    let mut ways: Vec<u16> = vec![pinned; known];
    for &flow in &flows[known..] {
        let value = reader.pin().get(flow);
        let way = backends.action(flow, value);
        shares[usize::from(way)] += 1;
        ways.push(way);
        let delta = control.insert(flow, value).of(NAME)?;
        let _ = table.apply(&delta).of(NAME)?;
    }
    let mut is_there = |(&flow, &way): (&KeyHash, &u16)| backends.action(flow, reader.pin().get(flow)) == way;
    let moved = flows.iter().zip(&ways).filter(|&pair| !is_there(pair)).count();
    ensure(moved == 0, NAME, || format!("{moved} flows left their backend"))?;
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_flows_go_by_weight() {
        let flows = 20_000;
        let shares = balance(flows).unwrap();
        for (&got, &weight) in shares.iter().zip(&WEIGHTS) {
            let want = flows as f64 * f64::from(weight) / 16.0;
            assert!((got as f64 - want).abs() < 5.0 * want.sqrt(), "{shares:?}");
        }
    }
}
