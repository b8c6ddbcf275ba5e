//! Unknown names as new flows: the table's arbitrary answers make a weighted choice of backends.

use super::paper;
use crate::error::BenchError;
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::session::Session;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::PageTable;
use scalebricks_tables::WeightedActions;
use scalebricks_tables::othello::{OthelloBuilder, OthelloControl, OthelloReader, Params};
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let names = session.options().first_keys(50_000, 500_000);
    let heads = [
        "known flows",
        "new flows",
        "backend",
        "weight",
        "paper",
        "asked",
        "known flows alike: measured",
        "installed, then moved",
    ];
    let mut sheet = PageTable::new("concise-balancer", &heads);
    let busy = session.busy("installing flows");
    let shares = balance(names as usize)?;
    drop(busy);
    let total: u32 = WEIGHTS.iter().sum();
    for (backend, (&weight, &got)) in WEIGHTS.iter().zip(&shares).enumerate() {
        let new = shares.iter().sum::<u64>();
        sheet.rows.push(vec![
            short_count(names),
            short_count(new),
            backend.to_string(),
            weight.to_string(),
            paper::NOT_GIVEN.to_owned(),
            format!("{:.2} %", 100.0 * f64::from(weight) / f64::from(total)),
            format!("{:.2} %", 100.0 * got as f64 / new.max(1) as f64),
            "0".to_owned(),
        ]);
    }
    session.add_table(sheet);
    Ok(())
}

/// Installs as many new flows as there are known ones, each at the backend that the table returns for it.
/// Returns the number of new flows per backend. All known flows are on the last backend, which must not
/// affect the shares.
fn balance(known: usize) -> Result<Vec<u64>, BenchError> {
    let backends =
        WeightedActions::new(&WEIGHTS, VALUE_BITS, 1).map_err(|error| BenchError::of(NAME, error))?;
    let flows = Kind::Mac.hashes(0, 2 * known);
    let pinned = (WEIGHTS.len() - 1) as u16;
    let values = flows[..known].iter().map(|&flow| backends.value(flow, pinned).unwrap_or(0)).collect();
    let set = Population { value_bits: VALUE_BITS, hashes: flows[..known].to_vec(), actions: values };
    let params = Params::for_keys(2 * known as u64, VALUE_BITS, PartitionCount::ONE);
    let params = params.map_err(|error| BenchError::of(NAME, error))?;
    let builder = OthelloBuilder::new(params).threads(pin::cores());
    let mut control: OthelloControl =
        builder.build(&set.pairs()).map_err(|error| BenchError::of(NAME, error))?;
    let table = Arc::new(control.export());
    let mut reader = OthelloReader::new(Arc::clone(&table));
    let mut shares = vec![0; WEIGHTS.len()];
    let mut ways: Vec<u16> = vec![pinned; known];
    for &flow in &flows[known..] {
        let value = reader.pin().get(flow);
        let way = backends.action(flow, value);
        shares[usize::from(way)] += 1;
        ways.push(way);
        let delta = control.insert(flow, value).map_err(|error| BenchError::of(NAME, error))?;
        let _ = table.apply(&delta).map_err(|error| BenchError::of(NAME, error))?;
    }
    let mut is_there = |(&flow, &way): (&KeyHash, &u16)| backends.action(flow, reader.pin().get(flow)) == way;
    let moved = flows.iter().zip(&ways).filter(|&pair| !is_there(pair)).count();
    if moved > 0 {
        return Err(BenchError::check(NAME, format!("{moved} flows left their backend")));
    }
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
