//! Table I: memory of whole FIBs, by what their names are and how many actions there are.

use super::fibs::{self, Fib, NameFib};
use super::{megabytes, paper};
use crate::baselines::tuple_space::{Rule, TupleSpace};
use crate::error::BenchError;
use crate::figures::exhibit::Sheet;
use crate::names::population::{Kind, Population, action};
use crate::names::{headers, ipv4s, ipv6s, macs};
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use rayon::prelude::*;
use scalebricks_console::quantity::{count, short_count};
use scalebricks_tables::othello::Sizing;

/// Names, how many, and bits of their actions. Which FIBs the paper's table has, we do not know; these are a
/// switch's, a large Ethernet's, two host tables and two tables of flows.
const FIBS: [(Kind, u64, u8); 6] = [
    (Kind::Mac, 700_000, 4),
    (Kind::Mac, 5_000_000, 8),
    (Kind::Ipv4, 1_000_000, 4),
    (Kind::Ipv6, 2_000_000, 8),
    (Kind::Header, 300_000, 8),
    (Kind::Header, 1_400_000, 16),
];

/// The structures, in the order of the columns.
const STRUCTURES: [Fib; 7] = [
    Fib::OTHELLO,
    Fib::Othello(Sizing::Option2, 0),
    Fib::SetSep,
    Fib::Cuckoo,
    Fib::Buffalo,
    Fib::Orthogonal,
    Fib::Sorted,
];

/// Bytes a name while it is measured: all structures in turn, rules of tuple spaces the largest.
const NAME_BYTES: u64 = 2 * 192 + 64;

/// Least names of which every structure is asked; a filter an action is asked of no more, if actions are many.
const ASKED: usize = 1 << 10;

/// Builds, asks, weighs.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = STRUCTURES.iter().map(|fib| match fib.format() {
        Some(format) if *fib != Fib::OTHELLO => format!("{} {format}, slots alone", fib.name()),
        _ => fib.name().to_owned(),
    });
    let mut sheet = Sheet::new("concise-table-1", &["names", "number", "actions", "paper, Concise"]);
    sheet.heads.extend(heads);
    sheet.heads.push("tuple-space".to_owned());
    for (kind, names, value_bits) in FIBS {
        let names = names / session.options().pick(20, 1);
        let names = session.options().keys.as_ref().and_then(|keys| keys.first().copied()).unwrap_or(names);
        if session.fits(names, NAME_BYTES)? {
            one(session, &mut sheet, kind, names, value_bits)?;
        }
    }
    session.tabulate(sheet);
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    sheet: &mut Sheet,
    kind: Kind,
    names: u64,
    value_bits: u8,
) -> Result<(), BenchError> {
    let busy = session.busy("making names");
    let names = Population::of(kind, names, value_bits);
    drop(busy);
    let number = names.len() as u64;
    let known = paper::megabytes("othello", number, value_bits).filter(|_| kind == Kind::Mac);
    let mut cells = vec![
        kind.name().to_owned(),
        short_count(number),
        count(1 << value_bits),
        known.map_or_else(|| paper::NOT_GIVEN.to_owned(), |megabytes| megabytes.to_string()),
    ];
    for fib in STRUCTURES {
        if fib == Fib::SetSep && value_bits > 8 {
            cells.push("at most 8 bits".to_owned());
            continue;
        }
        session.check()?;
        let busy = session.busy("building");
        let table = fib.build(&names, pin::cores())?;
        let asked = if fib == Fib::Buffalo {
            (super::lines::MOST_FILTERS >> value_bits).max(ASKED)
        } else {
            usize::MAX
        };
        ask(fib.name(), &*table, &names, asked.min(names.len()))?;
        drop(busy);
        // The spare copy of one range of all names is not the paper's.
        let is_whole = fib == Fib::OTHELLO || table.slot_bytes().is_none();
        let shown = if is_whole { table.table_bytes() } else { table.slot_bytes().unwrap_or(0) };
        cells.push(megabytes(shown));
        add(session, fib.name(), fib.format(), &names, kind, table.table_bytes());
    }
    session.check()?;
    let busy = session.busy("building");
    let bytes = tuple_space(kind, number, value_bits)?;
    drop(busy);
    add(session, "tuple-space", None, &names, kind, bytes);
    cells.push(megabytes(bytes));
    sheet.rows.push(cells);
    Ok(())
}

/// Asks for so many of the names, on all cores.
fn ask(structure: &str, table: &dyn NameFib, names: &Population, asked: usize) -> Result<(), BenchError> {
    let parts = names.hashes[..asked].par_chunks(fibs::BATCH).zip(names.actions.par_chunks(fibs::BATCH));
    parts.try_for_each(|(hashes, right)| {
        let mut answers = vec![0; hashes.len()];
        table.asker().ask(hashes, &mut answers);
        fibs::check(structure, table, hashes, (&right[..hashes.len()], &answers)).map(drop)
    })
}

fn add(
    session: &mut Session<'_>,
    structure: &str,
    format: Option<&'static str>,
    names: &Population,
    kind: Kind,
    bytes: u64,
) {
    let subject = Subject {
        format,
        variant: Some(kind.name().to_owned()),
        value_bits: Some(names.value_bits),
        table_bytes: Some(bytes),
        ..session.subject(structure, names.len() as u64)
    };
    let bits = bytes as f64 * 8.0 / names.len().max(1) as f64;
    session.add(subject, Metric::BitsPerKey, Summary::exact(bits));
}

/// Bits of a header that names of a kind fill.
const fn mask(kind: Kind) -> [u64; 4] {
    match kind {
        Kind::Mac => [0, !0 << 16, 0, 0],
        Kind::Ipv4 => [0, 0, 0xFFFF_FFFF, 0],
        Kind::Ipv6 => [!0, !0, 0, 0],
        Kind::Header | Kind::Text => [!0; 4],
    }
}

/// Names of a kind, where the fields of a header have them.
fn words(kind: Kind) -> Box<dyn Iterator<Item = [u64; 4]>> {
    match kind {
        Kind::Mac => Box::new(
            macs(1).map(|[a, b, c, d, e, f]| [0, u64::from_be_bytes([a, b, c, d, e, f, 0, 0]), 0, 0]),
        ),
        Kind::Ipv4 => Box::new(ipv4s(1).map(|name| [0, 0, u32::from_be_bytes(name).into(), 0])),
        Kind::Ipv6 => Box::new(ipv6s(1).map(|name| {
            let name = u128::from_be_bytes(name);
            [(name >> 64) as u64, name as u64, 0, 0]
        })),
        Kind::Header | Kind::Text => Box::new(headers(1)),
    }
}

/// Bytes of a tuple space of one rule a name: names are exact, so it is one table. Every rule is asked for.
fn tuple_space(kind: Kind, names: u64, value_bits: u8) -> Result<u64, BenchError> {
    const NAME: &str = "tuple-space";
    let (mask, mut space) = (mask(kind), TupleSpace::new());
    for (value, number) in words(kind).zip(0..names) {
        space.insert(&Rule { mask, value, priority: 1, action: action(number, value_bits) });
    }
    for (value, number) in words(kind).zip(0..names) {
        if space.look_up(&value) != Some((1, action(number, value_bits))) {
            return Err(BenchError::check(NAME, format!("a wrong action for {value:x?}")));
        }
    }
    Ok(space.table_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn every_fib_is_weighed_in_every_structure() {
        let options = Options { keys: Some(vec![2000]), quick: true, ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        run(&mut session).unwrap();
        let rows = session.rows().len();
        assert_eq!(rows, FIBS.len() * (STRUCTURES.len() + 1) - 1, "SetSep takes no 16 bits");
        let (_, exhibits) = session.finish();
        assert!(exhibits.sheets[0].rows.iter().all(|row| row.len() == exhibits.sheets[0].heads.len()));
    }

    #[test]
    fn a_rule_is_a_line_in_a_table_at_most_half_full() {
        // 3000 rules need 8192 slots of 64 bytes: doubling stops at the first power of two of twice as many.
        let bytes = tuple_space(Kind::Ipv4, 3000, 4).unwrap();
        assert!((8192 * 64..8192 * 64 + 200).contains(&bytes), "{bytes}");
    }
}
