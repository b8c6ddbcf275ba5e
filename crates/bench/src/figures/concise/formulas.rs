//! Table I: costs by formula, and the memory measured in Table II.

use super::memory::SLOTS_ALONE;
use super::paper::{self, Formula};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::{Metric, SelectRows};
use crate::sheet::Sheet;

/// Our row; `docs/concise-figures.md` uses the same words.
const OURS: Formula = Formula {
    fib: "Othello here, sharded",
    structure: "othello",
    build: "O(n)",
    bits: "2.33·n·log w, and 32 bits for 218 names",
    query: "O(1)",
    note: "3 reads: a directory in the cache, then 2",
    bits_per_name: Some(|_, value| 7.0 / 3.0 * value + 32.0 / 218.0),
};

/// The row of Table II to compare formulas with: MAC addresses, 256 actions.
const NAME_BITS: f64 = 48.0;
const VALUE_BITS: u8 = 8;

/// Collects the rows of Table II.
///
/// # Errors
/// None; Table II reports its own errors.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let formulas = paper::TABLE_1.into_iter().chain([OURS]).map(|formula| {
        let by_formula = formula.bits_per_name.map(|of| of(NAME_BITS, VALUE_BITS.into()));
        let sizing = if formula.fib == OURS.fib { "sharded" } else { "option-2" };
        (formula, by_formula, measured(bench, formula.structure, sizing))
    });
    let formulas: Vec<(Formula, Option<f64>, Option<f64>)> = formulas.collect();
    let digits = |bits: Option<f64>| bits.map(|bits| format!("{bits:.1}")).unwrap_or_default();
    let sheet = Sheet::new("concise-table-1", &formulas)
        .column("FIB", |(formula, ..)| formula.fib)
        .column("construction", |(formula, ..)| formula.build)
        .column("memory, bits", |(formula, ..)| formula.bits)
        .column("query", |(formula, ..)| formula.query)
        .column("note", |(formula, ..)| formula.note)
        .column("by formula, bits a name", |(_, by_formula, _)| digits(*by_formula))
        .column("here, bits a name", |(.., here)| digits(*here));
    bench.add_table(sheet);
    let built = formulas.iter().filter_map(|(formula, by_formula, here)| {
        Some(Built { fib: formula.fib, by_formula: (*by_formula)?, here: (*here)? })
    });
    conclude(bench, &built.collect::<Vec<_>>());
    Ok(())
}

/// Bits per name of a built structure that has a formula.
struct Built {
    /// Its name in the table.
    fib: &'static str,
    /// Bits per name by the formula.
    by_formula: f64,
    /// Bits per name of the largest table.
    here: f64,
}

/// Bits per name of a structure in the largest table of MAC addresses.
fn measured(bench: &BenchRun<'_>, structure: &str, format: &str) -> Option<f64> {
    let rows = bench.rows().iter().metric(Metric::BitsPerKey).structure(structure).format(format);
    let rows = rows.filter(|row| {
        let variant = if row.case.format == Some("option-2") { SLOTS_ALONE } else { "MAC" };
        row.case.value_bits == Some(VALUE_BITS) && row.case.is_variant(variant)
    });
    rows.max_by_key(|row| row.case.keys).map(|row| row.median)
}

/// States how close the built tables are to their formulas.
fn conclude(bench: &mut BenchRun<'_>, built: &[Built]) {
    let above = |of: &Built| of.here / of.by_formula;
    let Some(farthest) = built.iter().max_by(|a, b| above(a).total_cmp(&above(b))) else { return };
    let all: Vec<String> =
        built.iter().map(|of| format!("{} {:.1} ({:.1})", of.fib, of.here, of.by_formula)).collect();
    let mut ordered: Vec<&Built> = built.iter().collect();
    ordered.sort_by(|a, b| a.by_formula.total_cmp(&b.by_formula));
    let order = if ordered.is_sorted_by_key(|of| of.here) { "the order of" } else { "another order than" };
    let sentence = format!(
        "For MAC addresses and 256 actions, memory comes to these bits a name here, and by formula: {}; the farthest above its \
         formula is {} with {:.2} times, and the structures come in {order} their formulas.",
        all.join(", "),
        farthest.fib,
        above(farthest),
    );
    bench.add_conclusion("concise-table-1-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn formulas_stand_beside_what_was_built() {
        let mut bench = BenchRun::for_test("concise", Options::default());
        let case = bench.case("othello", 5_000_000).format("sharded").variant("MAC".to_owned()).value_bits(8);
        bench.add(Case { keys: 7, ..case.clone() }, Metric::BitsPerKey, Summary::exact(99.0));
        bench.add(case, Metric::BitsPerKey, Summary::exact(19.0));
        run(&mut bench).unwrap();
        let (_, exhibits) = bench.finish();
        assert_eq!(
            exhibits.conclusions[0].sentence,
            "For MAC addresses and 256 actions, memory comes to these bits a name here, and by formula: Othello here, sharded 19.0 \
             (18.8); the farthest above its formula is Othello here, sharded with 1.01 times, and the structures come in the order of \
             their formulas."
        );
        let rows = &exhibits.sheets[0].rows;
        assert_eq!(rows[5][5..], ["18.8", "19.0"]);
        assert_eq!(rows[0][5..], ["32.0", ""], "option 2 was not built");
        assert_eq!((rows[1][5].as_str(), rows[2][5].as_str()), ("61.6", "14.0"));
    }

    #[test]
    fn another_order_than_that_of_the_formulas_is_told() {
        let mut bench = BenchRun::for_test("concise", Options::default());
        let built = |fib, by_formula, here| Built { fib, by_formula, here };
        conclude(&mut bench, &[]);
        conclude(&mut bench, &[built("a", 10.0, 15.0), built("b", 20.0, 14.0)]);
        let (_, exhibits) = bench.finish();
        let [said] = &exhibits.conclusions[..] else { panic!("nothing is said of nothing") };
        assert!(
            said.sentence
                .contains("a 15.0 (10.0), b 14.0 (20.0); the farthest above its formula is a with 1.50")
        );
        assert!(said.sentence.ends_with("come in another order than their formulas."));
    }
}
