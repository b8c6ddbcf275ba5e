//! Table II: memory of whole FIBs and maximum cache lines per query, by kind of names and number of actions.

use super::conclusions;
use super::fibs::{self, Fib, NameFib};
use super::paper::{self, FibMemory};
use crate::baselines::RATE;
use crate::baselines::buffalo::Sizes;
use crate::baselines::tuple_space::{Rule, TupleSpace};
use crate::error::BenchError;
use crate::names::files::FileNames;
use crate::names::population::{Kind, Population, action};
use crate::names::{headers, ipv4s, ipv6s, macs};
use crate::pin;
use crate::row::Metric;
use crate::session::Session;
use rayon::prelude::*;
use scalebricks_console::quantity::{count, short_count};
use scalebricks_report::exhibit::PageTable;
use scalebricks_report::stats::Summary;
use scalebricks_tables::othello::Sizing;

/// The structures in the order of the rows.
const STRUCTURES: [Fib; 9] = [
    Fib::OTHELLO,
    Fib::Othello(Sizing::Option1, 0),
    Fib::Othello(Sizing::Option2, 0),
    Fib::SetSep,
    Fib::Cuckoo,
    Fib::Buffalo,
    Fib::BuffaloApart,
    Fib::Orthogonal,
    Fib::Sorted,
];

/// Variant of rows that count the slots alone, as the paper does: without directory and spare copy.
pub const SLOTS_ALONE: &str = "MAC, slots alone";

/// Bytes per name during a measurement, with one structure at a time. The rules of the tuple space are the
/// largest.
const NAME_BYTES: u64 = 2 * 192 + 64;

/// Up to this many names, separate filters are built; beyond, their size is computed.
const FEW: u64 = 8_000_000;

/// Maximum filters queried in total, each a cache miss. With thousands of filters, not every name can be
/// looked up.
const MOST_FILTERS: usize = 1 << 26;
/// Minimum names looked up in every structure.
const ASKED: usize = 1 << 10;
/// Maximum lines counted per structure.
const COUNTED: usize = 1 << 22;

/// Builds, queries and measures all structures.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = [
        "names",
        "number",
        "actions",
        "structure",
        "paper, MiB",
        "here as the paper counts, MiB",
        "here in all, MiB",
        "paper, lines",
        "here, lines at most",
        "names with several actions",
        "doubts",
    ];
    let mut sheet = PageTable::new("concise-table-2", &heads);
    for row in &paper::TABLE_2 {
        let names = row.names / session.options().pick(100, 1);
        let names = session.options().keys.as_ref().and_then(|keys| keys.first().copied()).unwrap_or(names);
        if session.fits(names, NAME_BYTES)? {
            one(session, &mut sheet, row, names)?;
        }
    }
    session.add_table(sheet);
    conclusions::memory(session);
    Ok(())
}

/// The footprint of a structure.
struct Footprint {
    structure: &'static str,
    format: Option<&'static str>,
    /// Bytes as the paper counts: slots without directory or spare copy; `false` if computed by a formula.
    counted: Option<(u64, bool)>,
    /// Bytes of all that answers queries; 0 if it was not built.
    bytes: u64,
    lines: Lines,
    /// Names with several fitting actions, and the names looked up.
    ambiguous: Option<(usize, usize)>,
}

/// Cache lines per query.
enum Lines {
    /// Maximum and mean, counted during queries.
    Counted(usize, f64),
    /// Derived from the layout.
    ByLayout(&'static str),
    /// Not measured.
    Unknown,
}

fn one(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    row: &FibMemory,
    names: u64,
) -> Result<(), BenchError> {
    let busy = session.busy("making names");
    let set = Population::of(row.kind, names, row.value_bits);
    drop(busy);
    for fib in STRUCTURES {
        session.check()?;
        let busy = session.busy("building");
        let found = if fib == Fib::SetSep && row.value_bits > 8 {
            continue; // it takes no more than 8 bits
        } else if fib == Fib::BuffaloApart && names > FEW {
            by_formula(&set)?
        } else {
            build(fib, &set, row.kind)?
        };
        drop(busy);
        add(session, sheet, row, &set, &found);
    }
    session.check()?;
    let busy = session.busy("building");
    let found = tuple_space(row.kind, names, row.value_bits)?;
    drop(busy);
    add(session, sheet, row, &set, &found);
    Ok(())
}

/// Builds a structure, looks up its names and counts lines.
fn build(fib: Fib, set: &Population, kind: Kind) -> Result<Footprint, BenchError> {
    let table = fib.build(set, pin::cores())?;
    let most =
        if fib == Fib::BuffaloApart { (MOST_FILTERS >> set.value_bits).max(ASKED) } else { usize::MAX };
    let asked = most.min(set.len());
    let ambiguous = ask(fib.name(), &*table, set, asked)?;
    let is_exact = table.lines(set.hashes[0]).is_none() || fib == Fib::Sorted;
    let counted = match fib {
        Fib::Cuckoo => Some((cuckoo_bytes(kind, set), false)),
        _ => table.slot_bytes().map(|bytes| (bytes, true)),
    };
    Ok(Footprint {
        structure: fib.name(),
        format: fib.format(),
        counted,
        bytes: table.table_bytes(),
        lines: count_lines(fib, &*table, set),
        ambiguous: (!is_exact).then_some((ambiguous, asked)),
    })
}

/// The lines per query, over as many names as yield [`COUNTED`] lines.
fn count_lines(fib: Fib, table: &dyn NameFib, set: &Population) -> Lines {
    // A 32-bit load of one of our slots may cross into the next line.
    match fib {
        Fib::Othello(..) | Fib::Filtered => {
            return Lines::ByLayout("3, or 5 where loads cross");
        }
        Fib::SetSep => return Lines::ByLayout("3"),
        Fib::Cuckoo => return Lines::ByLayout("3, seldom more"),
        _ => {}
    }
    let (mut most, mut sum, mut names) = (0, 0, 0);
    // A prime stride, so that the names are spread over the whole table.
    let places = (0..set.len()).map(|number| number.wrapping_mul(7_368_787) % set.len());
    for lines in places.filter_map(|place| table.lines(set.hashes[place])) {
        most = most.max(lines);
        sum += lines;
        names += 1;
        if sum > COUNTED {
            break;
        }
    }
    Lines::Counted(most, sum as f64 / f64::from(names.max(1)))
}

/// The size of the paper's cuckoo table, computed: a slot for each name and action, at 95 % load.
#[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
fn cuckoo_bytes(kind: Kind, set: &Population) -> u64 {
    let bits = match kind {
        Kind::Mac => 64.0,
        Kind::Ipv4 => 32.0 + f64::from(set.value_bits),
        Kind::Ipv6 => 136.0,
        Kind::Header => 384.0,
        Kind::File => mean_file_bits(set.len()) + f64::from(set.value_bits),
    };
    (set.len() as f64 * bits / 0.95 / 8.0) as u64
}

/// Mean bits of the first file names.
fn mean_file_bits(names: usize) -> f64 {
    let (mut files, mut name, mut bytes) = (FileNames::new(1), String::new(), 0);
    for _ in 0..names {
        files.write_next(&mut name);
        bytes += name.len();
    }
    8.0 * bytes as f64 / names.max(1) as f64
}

/// The size of filters that are not built.
fn by_formula(set: &Population) -> Result<Footprint, BenchError> {
    let fib = Fib::BuffaloApart;
    let mut counts = vec![0; 1 << set.value_bits];
    set.actions.iter().for_each(|&action| counts[usize::from(action)] += 1);
    let sizes = Sizes::for_rate(&counts, RATE, 1).map_err(|error| BenchError::of(fib.name(), error))?;
    Ok(Footprint {
        structure: fib.name(),
        format: None,
        counted: Some((sizes.bits() / 8, false)),
        bytes: 0,
        lines: Lines::Unknown,
        ambiguous: None,
    })
}

/// Looks up the first names on all cores; returns how many have several fitting actions.
fn ask(structure: &str, table: &dyn NameFib, names: &Population, asked: usize) -> Result<usize, BenchError> {
    let parts = names.hashes[..asked].par_chunks(fibs::BATCH).zip(names.actions.par_chunks(fibs::BATCH));
    let parts = parts.map(|(hashes, right)| {
        let mut answers = vec![0; hashes.len()];
        table.reader().lookup(hashes, &mut answers);
        fibs::check(structure, table, hashes, (&right[..hashes.len()], &answers))
    });
    parts.sum()
}

fn mib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 9.995 { format!("{mib:.2}") } else { format!("{mib:.1}") }
}

fn add(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    row: &FibMemory,
    set: &Population,
    found: &Footprint,
) {
    let names = set.len() as u64;
    let case = session
        .case(found.structure, names)
        .format(found.format)
        .variant(row.kind.name().to_owned())
        .value_bits(row.value_bits)
        .table_bytes(found.bytes);
    let bits = |bytes: u64| Summary::exact(bytes as f64 * 8.0 / names.max(1) as f64);
    if found.bytes > 0 {
        session.add(case.clone(), Metric::BitsPerKey, bits(found.bytes));
    }
    if let (Some((bytes, true)), Kind::Mac) = (found.counted, row.kind) {
        let alone = case.clone().variant(SLOTS_ALONE.to_owned());
        session.add(alone, Metric::BitsPerKey, bits(bytes));
    }
    let lines = match found.lines {
        Lines::Counted(most, mean) => {
            let figures = Summary { median: mean, min: mean, max: most as f64, runs: 1 };
            session.add(case.clone(), Metric::CacheLines, figures);
            most.to_string()
        }
        Lines::ByLayout(text) => format!("{text} (layout)"),
        Lines::Unknown => "not asked".to_owned(),
    };
    if let Some((ambiguous, _)) = found.ambiguous {
        session.add(case, Metric::AmbiguousNames, Summary::exact(ambiguous as f64));
    }
    // The paper's table has interleaved BUFFALO filters.
    let known = row.of(found.structure).filter(|_| names == row.names);
    let [paper_mib, paper_lines] =
        known.map_or_else(|| [(); 2].map(|()| paper::NOT_GIVEN.to_owned()), |cell| cell.texts());
    let counted = match found.counted {
        Some((bytes, true)) => mib(bytes),
        Some((bytes, false)) => format!("{} (formula)", mib(bytes)),
        None => mib(found.bytes),
    };
    sheet.rows.push(vec![
        row.kind.name().to_owned(),
        short_count(names),
        count(1 << row.value_bits),
        [Some(found.structure), found.format].into_iter().flatten().collect::<Vec<_>>().join(" "),
        paper_mib,
        counted,
        if found.bytes > 0 { mib(found.bytes) } else { "not built".to_owned() },
        paper_lines,
        lines,
        found
            .ambiguous
            .map_or_else(String::new, |(names, of)| format!("{names} of {}", short_count(of as u64))),
        known.and_then(|cell| cell.doubt).unwrap_or_default().to_owned(),
    ]);
}

/// Header bits that names of a kind fill.
const fn mask(kind: Kind) -> [u64; 4] {
    match kind {
        Kind::Mac => [0, !0 << 16, 0, 0],
        Kind::Ipv4 => [0, 0, 0xFFFF_FFFF, 0],
        Kind::Ipv6 => [!0, !0, 0, 0],
        Kind::Header | Kind::File => [!0; 4],
    }
}

/// Names of a kind in the fields of a header.
fn words(kind: Kind, names: u64) -> Box<dyn Iterator<Item = [u64; 4]>> {
    match kind {
        Kind::Mac => Box::new(
            macs(1).map(|[a, b, c, d, e, f]| [0, u64::from_be_bytes([a, b, c, d, e, f, 0, 0]), 0, 0]),
        ),
        Kind::Ipv4 => Box::new(ipv4s(1).map(|name| [0, 0, u32::from_be_bytes(name).into(), 0])),
        Kind::Ipv6 => Box::new(ipv6s(1).map(|name| {
            let name = u128::from_be_bytes(name);
            [(name >> 64) as u64, name as u64, 0, 0]
        })),
        Kind::Header => Box::new(headers(1)),
        // A rule has 32 bytes, so longer names are represented by their hash, as a switch would have to match
        // them.
        Kind::File => Box::new(Kind::File.hashes(0, names as usize).into_iter().map(|name| [name.get(); 4])),
    }
}

/// A tuple space with one rule per name. Names are exact, so it has one table. Every rule is looked up.
fn tuple_space(kind: Kind, names: u64, value_bits: u8) -> Result<Footprint, BenchError> {
    const NAME: &str = "tuple-space";
    let (mask, mut space) = (mask(kind), TupleSpace::new());
    for (value, number) in words(kind, names).zip(0..names) {
        space.insert(&Rule { mask, value, priority: 1, action: action(number, value_bits) });
    }
    let (mut most, mut sum, mut counted) = (0, 0, 0);
    for (value, number) in words(kind, names).zip(0..names) {
        if space.look_up(&value) != Some((1, action(number, value_bits))) {
            return Err(BenchError::check(NAME, format!("a wrong action for {value:x?}")));
        }
        if sum < COUNTED {
            let lines = space.lines(&value);
            most = most.max(lines);
            sum += lines;
            counted += 1;
        }
    }
    Ok(Footprint {
        structure: NAME,
        format: None,
        counted: None,
        bytes: space.table_bytes(),
        lines: Lines::Counted(most, sum as f64 / f64::from(counted.max(1))),
        ambiguous: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn every_fib_is_weighed_in_every_structure() {
        let options = Options { keys: Some(vec![2000]), quick: true, ..Options::default() };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let most = |structure: &str, bits: u8| {
            let rows = session.rows().iter().filter(|row| row.metric == Metric::CacheLines);
            let of = rows.filter(|row| row.case.structure == structure && row.case.value_bits == Some(bits));
            of.map(|row| row.max).fold(0.0, f64::max)
        };
        // The paper's counts for names that are in the table.
        for (bits, buffalo, orthogonal) in [(4, 8.0, 15.0), (8, 8.0, 16.0)] {
            assert_eq!((most("buffalo", bits), most("orthogonal", bits)), (buffalo, orthogonal), "{bits}");
        }
        assert!(most("orthogonal", 16) <= 17.0);
        // A row is 128 lines. All eight rows' lines with the right action are read; lines without another
        // fitting action are skipped.
        assert!((128.0 + 7.0..=1024.0).contains(&most("buffalo", 16)));
        assert!(most("buffalo, apart", 8) > 256.0, "a line of each of 256 filters at least");
        let (_, exhibits) = session.finish();
        let rows = &exhibits.sheets[0].rows;
        assert_eq!(rows.len(), paper::TABLE_2.len() * (STRUCTURES.len() + 1) - 1, "SetSep takes no 16 bits");
        assert!(rows.iter().all(|row| row.len() == exhibits.sheets[0].heads.len()));
        assert_eq!(exhibits.conclusions.len(), 1);
    }

    #[test]
    fn sizes_by_formula_are_those_of_the_filters_built() {
        let set = Population::of(Kind::Mac, 30_000, 4);
        let formula = by_formula(&set).unwrap().counted.unwrap().0 as f64;
        let built = Fib::BuffaloApart.build(&set, 1).unwrap().table_bytes() as f64;
        assert!(
            (0.99..1.0).contains(&(formula / built)),
            "what tells where filters are is little: {formula} {built}"
        );
    }

    #[test]
    fn a_rule_is_a_line_in_a_table_at_most_half_full() {
        // 3000 rules need 8192 slots of 64 bytes, the first power of two that is at least twice as many.
        let bytes = tuple_space(Kind::Ipv4, 3000, 4).unwrap().bytes;
        assert!((8192 * 64..8192 * 64 + 200).contains(&bytes), "{bytes}");
    }
}
