//! Our goals for the tables in one place: rows of `make tables`, as shares of what they should reach.

use super::tables::{OWN_TABLE, OWNER_ALONE};
use crate::benches::{CHECK_BITS, CHECKED, TURNED_OVER};
use crate::limit;
use crate::row::{Case, Metric, Row};
use crate::table::figure;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::PageTable;

/// Value bits of the goals: a cluster of four nodes.
const VALUE_BITS: u8 = 2;

/// Tables whose bytes differ by less than this are as large.
const EQUAL_PERCENT: u64 = 3;

/// Goals for updates are for tables of at least this many keys.
const LARGE: u64 = 16_000_000;

/// Rows that a goal is about. The fastest of them counts; updates at an owner without a table do not.
#[derive(Clone, Copy)]
struct Chosen {
    bench: &'static str,
    structures: &'static [&'static str],
    format: Option<&'static str>,
    value_bits: u8,
    metric: Metric,
    batch: Option<usize>,
    /// What their variant ends with.
    variant: &'static str,
}

/// What is compared with the goal.
enum Measured {
    Row(Chosen),
    /// The ratio of two medians.
    Ratio(Chosen, Chosen),
    /// The same for tables of equal bytes, of which the first has fewer keys.
    AtEqualBytes(Chosen, Chosen),
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

struct Goal {
    what: &'static str,
    measured: Measured,
    bound: Bound,
    /// The smallest number of keys that it is for.
    from_keys: u64,
}

impl Chosen {
    const fn lookups(structures: &'static [&'static str], batch: usize) -> Self {
        Self {
            bench: "setsep-lookup",
            structures,
            format: None,
            value_bits: VALUE_BITS,
            metric: Metric::LookupRate,
            batch: Some(batch),
            variant: "",
        }
    }

    const fn exact(structures: &'static [&'static str], batch: usize, variant: &'static str) -> Self {
        Self { bench: "fib", variant, ..Self::lookups(structures, batch) }
    }

    const fn setsep(batch: usize) -> Self {
        Self { format: Some("linear"), ..Self::lookups(&["setsep"], batch) }
    }

    const fn othello(batch: usize) -> Self {
        Self { format: Some("sharded"), ..Self::lookups(&["othello"], batch) }
    }

    /// Instead of a fresh table, one all of whose values were changed.
    const fn turned_over(self) -> Self {
        Self { bench: TURNED_OVER, variant: "batched", ..self }
    }

    const fn shares(self) -> Self {
        Self { metric: Metric::ShareOfLimit, ..self }
    }

    const fn updates(self, bench: &'static str, metric: Metric, variant: &'static str) -> Self {
        Self { bench, metric, variant, ..self }
    }

    /// The fastest row of tables with this many keys.
    fn of(self, rows: &[Row], keys: u64) -> Option<&Row> {
        self.fastest(rows, |case| case.keys == keys)
    }

    /// The fastest row of tables with about this many bytes.
    fn of_bytes(self, rows: &[Row], bytes: u64) -> Option<&Row> {
        self.fastest(rows, |case| {
            case.table_bytes.is_some_and(|of| of.abs_diff(bytes) * 100 < bytes * EQUAL_PERCENT)
        })
    }

    fn fastest(self, rows: &[Row], is_size: impl Fn(&Case) -> bool) -> Option<&Row> {
        let found = rows.iter().filter(|row| {
            let case = &row.case;
            let variant = case.variant_text();
            let is_width = case.bench == "fib" || case.value_bits == Some(self.value_bits);
            (case.bench, row.metric, case.batch) == (self.bench, self.metric, self.batch)
                && is_size(case)
                && self.structures.contains(&case.structure.as_str())
                && (self.format.is_none() || case.format == self.format)
                && (case.threads.unwrap_or(1) == 1 && is_width && !limit::is_limit(case))
                && variant.strip_suffix(OWN_TABLE).unwrap_or(variant).ends_with(self.variant)
                && !variant.ends_with(OWNER_ALONE)
        });
        found.max_by(|a, b| a.median.total_cmp(&b.median))
    }
}

const GOALS: [Goal; 19] = [
    for_all(
        "lookup, SetSep, share of the machine's limit, 64 a call",
        Measured::Row(Chosen::setsep(64).shares()),
        0.6,
    ),
    for_all(
        "lookup, Othello, share of the machine's limit, 64 a call",
        Measured::Row(Chosen::othello(64).shares()),
        0.6,
    ),
    for_all(
        "lookup, Othello over SetSep of as many keys, 64 a call",
        Measured::Ratio(Chosen::othello(64), Chosen::setsep(64)),
        0.9,
    ),
    for_all(
        "lookup, SetSep turned over, share of the machine's limit, 64 a call",
        Measured::Row(Chosen::setsep(64).turned_over().shares()),
        0.6,
    ),
    for_all(
        "lookup, Othello turned over, share of the machine's limit, 64 a call",
        Measured::Row(Chosen::othello(64).turned_over().shares()),
        0.6,
    ),
    for_all(
        "lookup, Othello over SetSep at equal bytes (fewer names), both turned over, 64 a call",
        Measured::AtEqualBytes(Chosen::othello(64).turned_over(), Chosen::setsep(64).turned_over()),
        0.9,
    ),
    for_all(
        "lookup, Othello with 8 check bits over one at equal bytes without, 64 a call",
        Measured::Ratio(
            Chosen { variant: CHECKED, ..Chosen::othello(64).turned_over() },
            Chosen { value_bits: VALUE_BITS + CHECK_BITS, ..Chosen::othello(64).turned_over() },
        ),
        0.8,
    ),
    for_all(
        "lookup, exact table, share of the machine's limit, 64 a call",
        Measured::Row(Chosen::exact(&["cuckoo"], 64, "batched").shares()),
        0.8,
    ),
    for_all(
        "lookup, SetSep over the best of ptr_hash and sux, one key a call",
        Measured::Ratio(Chosen::setsep(1), Chosen::lookups(&["ptr_hash", "sux"], 1)),
        0.8,
    ),
    for_all(
        "lookup, exact table over the best of hashbrown and rte_hash, one key a call",
        Measured::Ratio(
            Chosen::exact(&["cuckoo"], 1, "loop"),
            Chosen::exact(&["hashbrown", "rte_hash"], 1, "loop"),
        ),
        0.8,
    ),
    for_all(
        "lookup, SetSep over ptr_hash, 64 a call",
        Measured::Ratio(Chosen::setsep(64), Chosen::lookups(&["ptr_hash"], 64)),
        1.0,
    ),
    for_large(
        "change a value, SetSep, one at a time",
        Chosen::setsep(1).updates("setsep-update", Metric::UpdateRate, "single"),
        2e6,
    ),
    for_large(
        "change a value, SetSep, 64 at a time",
        Chosen::setsep(64).updates("setsep-update", Metric::UpdateRate, ""),
        4e6,
    ),
    for_large(
        "change a value, SetSep, 65,536 at a time",
        Chosen::setsep(1 << 16).updates("setsep-update", Metric::UpdateRate, ""),
        12e6,
    ),
    for_large(
        "insert, SetSep, one at a time",
        Chosen::setsep(1).updates("setsep-update", Metric::InsertRate, "single"),
        1.5e6,
    ),
    for_large(
        "insert, SetSep, one at a time, growing from nothing",
        Chosen::setsep(1).updates("setsep-update", Metric::InsertRate, "growing from nothing"),
        1.5e6,
    ),
    for_large(
        "change a value, Othello, one at a time",
        Chosen::othello(1).updates("othello-update", Metric::UpdateRate, "single"),
        3e6,
    ),
    for_large(
        "change a value, Othello, 65,536 at a time",
        Chosen::othello(1 << 16).updates("othello-update", Metric::UpdateRate, "batched"),
        5e6,
    ),
    Goal {
        what: "bits per key, Othello",
        measured: Measured::Row(Chosen {
            batch: None,
            ..Chosen::othello(1).updates("othello-update", Metric::BitsPerKey, "")
        }),
        bound: Bound::AtMost(2.2 * VALUE_BITS as f64 + 0.2),
        from_keys: 0,
    },
];

const fn for_all(what: &'static str, measured: Measured, least: f64) -> Goal {
    Goal { what, measured, bound: Bound::AtLeast(least), from_keys: 0 }
}

const fn for_large(what: &'static str, chosen: Chosen, least: f64) -> Goal {
    Goal { what, measured: Measured::Row(chosen), bound: Bound::AtLeast(least), from_keys: LARGE }
}

impl Goal {
    /// The bound, the median, and whether it keeps the bound, for tables with this many keys.
    fn row(&self, rows: &[Row], keys: u64) -> Option<[String; 4]> {
        let (median, text): Figure<'_> = match self.measured {
            Measured::Row(chosen) => {
                let row = chosen.of(rows, keys)?;
                (row.median, Box::new(|value| figure(row, value)))
            }
            Measured::Ratio(ours, theirs) => ratio(ours.of(rows, keys)?, theirs.of(rows, keys)?),
            Measured::AtEqualBytes(ours, theirs) => {
                let theirs = theirs.of(rows, keys)?;
                ratio(ours.of_bytes(rows, theirs.case.table_bytes?)?, theirs)
            }
        };
        let (bound, is_kept, sign) = match self.bound {
            Bound::AtLeast(least) => (least, median >= least, "at least"),
            Bound::AtMost(most) => (most, median <= most, "at most"),
        };
        let verdict = if is_kept { "yes".to_owned() } else { format!("{:.2} of it", median / bound) };
        let what = format!("{}, {} keys", self.what, short_count(keys));
        Some([what, format!("{sign} {}", text(bound)), text(median), verdict])
    }
}

/// A number, and how it is shown.
type Figure<'r> = (f64, Box<dyn Fn(f64) -> String + 'r>);

/// The ratio of two medians.
fn ratio<'r>(ours: &Row, theirs: &Row) -> Figure<'r> {
    (ours.median / theirs.median, Box::new(|value| format!("{value:.2}")))
}

/// The goals that these rows can be compared with. Empty if there is none.
pub fn goals(rows: &[Row]) -> PageTable {
    let mut sheet = PageTable::new("goals", &["", "goal", "measured", "reached"]).side_by_side(2);
    // Tables of as many bytes as others have numbers of keys that no goal names.
    let named = rows.iter().filter(|row| row.case.bench != TURNED_OVER || row.case.structure == "setsep");
    let mut sizes: Vec<u64> = named.map(|row| row.case.keys).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for goal in &GOALS {
        let sizes = sizes.iter().filter(|&&keys| keys >= goal.from_keys);
        sheet.rows.extend(sizes.filter_map(|&keys| goal.row(rows, keys)).map(Vec::from));
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::row;
    use super::*;

    /// A row of the exact table or of Othello, whose cases say more.
    fn other(
        bench: &'static str,
        of: (&str, Option<&'static str>, &str),
        batch: Option<usize>,
        metric: Metric,
        value: f64,
    ) -> Row {
        let (structure, format, variant) = of;
        let row = row(bench, structure, batch, metric, value);
        let case = Case { format, variant: Some(variant.to_owned()), ..row.case.clone() };
        Row { case, ..row }
    }

    #[test]
    fn a_goal_says_whether_it_is_reached_and_how_much_is_missing() {
        let limit = format!("portable, {}", limit::LIMIT);
        let rows = vec![
            row("setsep-lookup", "setsep", Some(64), Metric::ShareOfLimit, 0.6),
            row("setsep-lookup", "setsep", Some(64), Metric::LookupRate, 4e8),
            other("setsep-lookup", ("setsep", Some("linear"), &limit), Some(64), Metric::LookupRate, 9e8),
            other(
                "setsep-lookup",
                ("othello", Some("sharded"), "batched"),
                Some(64),
                Metric::LookupRate,
                2e8,
            ),
            other("setsep-lookup", ("othello", Some("tight"), "batched"), Some(64), Metric::LookupRate, 4e8),
            other("fib", ("cuckoo", None, "partial-fib"), Some(64), Metric::ShareOfLimit, 0.9),
            other("fib", ("cuckoo", None, "batched"), Some(64), Metric::ShareOfLimit, 0.4),
            other(
                "setsep-update",
                ("setsep", Some("linear"), "single, owner alone"),
                Some(1),
                Metric::UpdateRate,
                9e6,
            ),
            other("setsep-update", ("setsep", Some("linear"), "single"), Some(1), Metric::UpdateRate, 9e5),
            other(
                "setsep-update",
                ("setsep", Some("linear"), "single, own table"),
                Some(1),
                Metric::UpdateRate,
                1e6,
            ),
            other("othello-update", ("othello", Some("sharded"), ""), None, Metric::BitsPerKey, 4.83),
        ];
        let sheet = goals(&rows);
        let told: Vec<[&str; 4]> =
            sheet.rows.iter().map(|row| [0, 1, 2, 3].map(|cell| row[cell].as_str())).collect();
        let want = [
            [
                "lookup, SetSep, share of the machine's limit, 64 a call, 16 M keys",
                "at least 0.60",
                "0.60",
                "yes",
            ],
            [
                "lookup, Othello over SetSep of as many keys, 64 a call, 16 M keys",
                "at least 0.90",
                "0.50",
                "0.56 of it",
            ],
            [
                "lookup, exact table, share of the machine's limit, 64 a call, 16 M keys",
                "at least 0.80",
                "0.40",
                "0.50 of it",
            ],
            ["change a value, SetSep, one at a time, 16 M keys", "at least 2 M/s", "1 M/s", "0.50 of it"],
            ["bits per key, Othello, 16 M keys", "at most 4.600", "4.830", "1.05 of it"],
        ];
        assert_eq!(told, want);
        assert!(goals(&[]).rows.is_empty());
    }

    #[test]
    fn tables_are_compared_at_equal_bytes_and_with_checksums() {
        let table = |of: (&str, &'static str, &str), keys, value_bits, bytes, rate| {
            let (structure, format, variant) = of;
            let mut row =
                other(TURNED_OVER, (structure, Some(format), variant), Some(64), Metric::LookupRate, rate);
            row.case = Case { keys, value_bits: Some(value_bits), table_bytes: Some(bytes), ..row.case };
            row
        };
        let rows = [
            table(("setsep", "linear", "avx2, batched"), 100, 2, 1000, 8e8),
            table(("othello", "sharded", "avx2, batched"), 100, 2, 1500, 4e8),
            table(("othello", "sharded", "avx2, batched"), 66, 2, 990, 6e8),
            table(("othello", "sharded", "avx2, batched"), 100, 10, 7000, 3e8),
            table(("othello", "sharded", "avx2, checked"), 100, 2, 7000, 2.4e8),
        ];
        let reached: Vec<[String; 2]> =
            goals(&rows).rows.iter().map(|row| [row[2].clone(), row[3].clone()]).collect();
        assert_eq!(reached, [["0.75", "0.83 of it"], ["0.80", "yes"]].map(|row| row.map(str::to_owned)));
    }

    #[test]
    fn goals_of_updates_are_for_large_tables() {
        let mut small = row("setsep-update", "setsep", Some(1), Metric::UpdateRate, 1e6);
        small.case.variant = Some("single".to_owned());
        small.case.keys = 1_000_000;
        assert!(goals(&[small]).rows.is_empty());
    }
}
