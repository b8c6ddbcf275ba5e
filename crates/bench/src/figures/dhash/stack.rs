//! The whole stack: Tables I and III, Figures 6 and 7.

use super::paper::{CLOCK_GHZ, SIGNATURES, STACK_BY_CORES, STAGE_CYCLES, TABLE_1_SHARES};
use crate::bench_run::BenchRun;
use crate::dhash::{
    CHAINED, DHASH, ONE_CORE, PACKETS_ALONE, PIPELINE, STACK, STAGE, STAGES, TABLE_1, TABLE_1_ROWS, TWO_CORES,
};
use crate::figures::router::millions;
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::Sheet;
use scalebricks_plan::flows::{Costs, plan};
use scalebricks_report::exhibit::PageTable;
use scalebricks_tables::dhash::Signature;

/// The least rate of the whole stack, Mpps.
pub(super) const LEAST_MPPS: f64 = 10.0;

/// Adds all tables.
pub(super) fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    bench.add_table(rates(rows));
    bench.add_table(table_1(rows));
    bench.add_table(table_3(rows));
    bench.add_table(by_cores(rows));
    bench.add_table(by_signature(rows));
}

/// The whole stack on one core with so many sessions.
pub(super) fn one_core(rows: &[Row], sessions: u64) -> Option<&Row> {
    let mut found = rows.iter().structure(STACK).keys(sessions);
    found.find(|row| row.case.is_variant(ONE_CORE) && row.case.format.is_none())
}

fn rates(rows: &[Row]) -> PageTable {
    let one_core = rows.iter().structure(STACK).filter(|row| row.case.is_variant(ONE_CORE));
    let one_core = one_core.filter(|row| row.case.format.is_none());
    Sheet::new("dhash-stack", one_core)
        .column("sessions", |row| row.case.keys)
        .column("Mpps, 1 core", |row| millions(Some(row)))
        .column("ns per packet", |row| format!("{:.1}", 1e9 / row.median))
        .into()
}

fn stage<'r>(rows: &'r [Row], name: &str) -> Option<&'r Row> {
    rows.iter().structure(STAGE).find(|row| row.case.is_variant(name))
}

/// Figure 7: the whole stack by signature.
fn by_signature(rows: &[Row]) -> PageTable {
    let of = |name: &str| rows.iter().structure(STACK).find(|row| row.case.format == Some(name));
    let number = |name: &str| SIGNATURES.iter().find(|one| one.1 == name).map(|one| one.0);
    Sheet::new("dhash-figure-7", Signature::ALL.map(Signature::name))
        .column("signature", |name| *name)
        .column("in the paper", |name| number(name).map_or_else(String::new, |number| number.to_string()))
        .column("sessions", |name| of(name).map_or_else(String::new, |row| row.case.keys.to_string()))
        .column("Mpps, 1 core", |name| millions(of(name)))
        .column("ns per packet", |name| {
            of(name).map_or_else(String::new, |row| format!("{:.1}", 1e9 / row.median))
        })
        .column("paper, Mpps", |_| "Not known: a picture")
        .into()
}

/// Time of a lookup alone.
fn lookup_ns(rows: &[Row], table: &'static str, sessions: u64) -> Option<f64> {
    let of = |structure: &'static str| {
        let mut found = rows.iter().structure(structure).keys(sessions).metric(Metric::LookupRate);
        found.find(|row| row.case.format == Some(TABLE_1_ROWS)).map(|row| 1e9 / row.median)
    };
    Some((of(table)? - of(PACKETS_ALONE)?).max(0.0))
}

/// Shares of I/O, IP, TCP without lookup, and lookup, in percent.
fn shares(rows: &[Row], table: &'static str, sessions: u64) -> Option<[f64; 4]> {
    let cost = |name| stage(rows, name).map(|row| row.median);
    let (io, ip) = (cost(STAGES[0])?, cost(STAGES[3])?);
    // What remains of the stack is the same with any table.
    let whole = 1e9 / one_core(rows, sessions)?.median;
    let rest = (whole - io - ip - lookup_ns(rows, DHASH, sessions)?).max(0.0);
    let lookup = lookup_ns(rows, table, sessions)?;
    let all = io + ip + rest + lookup;
    Some([io, ip, rest, lookup].map(|part| part / all * 100.0))
}

fn table_1(rows: &[Row]) -> PageTable {
    let heads = ["table", "sessions", "I/O, %", "IP, %", "TCP without lookup, %", "lookup, %"];
    let mut table = PageTable::new("dhash-table-1", &heads);
    for (name, sessions, shares) in TABLE_1_SHARES {
        table.rows.push(
            [vec![format!("paper: {name}"), sessions.to_string()], shares.map(str::to_owned).to_vec()]
                .concat(),
        );
    }
    let most = rows.iter().structure(STACK).map(|row| row.case.keys).max().unwrap_or(0);
    for (name, label) in [(CHAINED, "chained hash, 1,040 buckets"), (DHASH, "DHash")] {
        for sessions in TABLE_1.map(|sessions| sessions.min(most)) {
            let cells = shares(rows, name, sessions).map_or_else(
                || vec!["not measured".to_owned(); 4],
                |shares| shares.map(|share| format!("{share:.1}")).to_vec(),
            );
            table.rows.push([vec![label.to_owned(), sessions.to_string()], cells].concat());
        }
    }
    table
}

fn table_3(rows: &[Row]) -> PageTable {
    Sheet::new("dhash-table-3", STAGES.into_iter().zip(STAGE_CYCLES))
        .column("stage", |(name, _)| *name)
        .column("ns", |(name, _)| stage(rows, name).map_or_else(String::new, |row| row.spread(1.0, 1)))
        .column("paper, cycles", |(_, cycles)| *cycles)
        .column("paper, ns", |(_, cycles)| format!("{:.1}", f64::from(*cycles) / CLOCK_GHZ))
        .into()
}

/// The measured costs of stages, for the formula.
fn costs(rows: &[Row]) -> Option<Costs> {
    let of = |at: usize| Some(stage(rows, STAGES.get(at)?)?.median);
    Some(Costs {
        capture: of(0)?,
        balance: of(1)?,
        fifo: of(2)?,
        l3: of(3)?,
        tcp: of(4)?,
        units_per_second: 1e9,
    })
}

/// Figures 6 and 7: by cores. Beyond what is measured, the formula's bounds.
fn by_cores(rows: &[Row]) -> PageTable {
    let heads = ["cores", "Mpps", "how", "run to completion, Mpps", "how", "paper, Mpps"];
    let mut table = PageTable::new("dhash-cores", &heads);
    let Some(costs) = costs(rows) else { return table };
    let of_all = |row: &&Row| row.case.format.is_none();
    let measured =
        |variant: &str| rows.iter().structure(STACK).filter(of_all).find(|row| row.case.is_variant(variant));
    let sessions = rows.iter().structure(STAGE).map(|row| row.case.keys).max().unwrap_or(0);
    let of = |row: Option<&Row>, bound: f64| {
        row.map_or_else(
            || [format!("{bound:.1}"), "at most, by the formula".to_owned()],
            |row| {
                let mark = row.mark.map_or_else(String::new, |mark| format!(", {mark}"));
                [millions(Some(row)), format!("measured{mark}")]
            },
        )
    };
    for row in plan(&costs, 7).map(|plan| plan.rows).unwrap_or_default() {
        let (pipeline, alone) = match row.cores {
            1 => (one_core(rows, sessions), one_core(rows, sessions)),
            2 => (measured(PIPELINE), measured(TWO_CORES)),
            _ => (None, None),
        };
        let paper = STACK_BY_CORES.iter().find(|(cores, _)| *cores == row.cores);
        let paper = paper.map_or("Not known: a picture", |(_, mpps)| *mpps).to_owned();
        let (pipeline, alone) = (of(pipeline, row.mpps), of(alone, row.run_to_completion_mpps));
        table
            .rows
            .push([vec![row.cores.to_string()], pipeline.to_vec(), alone.to_vec(), vec![paper]].concat());
    }
    table
}
