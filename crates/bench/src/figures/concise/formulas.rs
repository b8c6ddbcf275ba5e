//! Table I: costs by formula, and the memory measured in Table II.

use super::conclusions;
use super::memory::SLOTS_ALONE;
use super::paper::{self, Formula};
use crate::error::BenchError;
use crate::row::Metric;
use crate::session::Session;
use scalebricks_report::exhibit::PageTable;

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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = [
        "FIB",
        "construction",
        "memory, bits",
        "query",
        "note",
        "by formula, bits a name",
        "here, bits a name",
    ];
    let mut sheet = PageTable::new("concise-table-1", &heads);
    let mut built = Vec::new();
    for formula in paper::TABLE_1.into_iter().chain([OURS]) {
        let by_formula = formula.bits_per_name.map(|of| of(NAME_BITS, VALUE_BITS.into()));
        let is_ours = formula.fib == OURS.fib;
        let here = measured(session, formula.structure, if is_ours { "sharded" } else { "option-2" });
        let cells =
            [formula.fib, formula.build, formula.bits, formula.query, formula.note].map(str::to_owned);
        let numbers =
            [by_formula, here].map(|bits| bits.map_or_else(String::new, |bits| format!("{bits:.1}")));
        sheet.rows.push([cells.as_slice(), &numbers].concat());
        built.extend(by_formula.zip(here).map(|(by_formula, here)| Built {
            fib: formula.fib,
            by_formula,
            here,
        }));
    }
    session.add_table(sheet);
    conclusions::formulas(session, &built);
    Ok(())
}

/// Bits per name of a built structure that has a formula.
pub struct Built {
    /// Its name in the table.
    pub fib: &'static str,
    /// Bits per name by the formula.
    pub by_formula: f64,
    /// Bits per name of the largest table.
    pub here: f64,
}

/// Bits per name of a structure in the largest table of MAC addresses.
fn measured(session: &Session<'_>, structure: &str, format: &str) -> Option<f64> {
    let rows = session.rows().iter().filter(|row| {
        let of = &row.case;
        row.metric == Metric::BitsPerKey
            && of.structure == structure
            && of.value_bits == Some(VALUE_BITS)
            && of.is_variant(if of.format == Some("option-2") { SLOTS_ALONE } else { "MAC" })
            && of.format.is_none_or(|of| of == format)
    });
    rows.max_by_key(|row| row.case.keys).map(|row| row.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn formulas_stand_beside_what_was_built() {
        let mut session = Session::for_test("concise", Options::default());
        let case =
            session.case("othello", 5_000_000).format("sharded").variant("MAC".to_owned()).value_bits(8);
        session.add(Case { keys: 7, ..case.clone() }, Metric::BitsPerKey, Summary::exact(99.0));
        session.add(case, Metric::BitsPerKey, Summary::exact(19.0));
        run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
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
        let mut session = Session::for_test("concise", Options::default());
        let built = |fib, by_formula, here| Built { fib, by_formula, here };
        conclusions::formulas(&mut session, &[]);
        conclusions::formulas(&mut session, &[built("a", 10.0, 15.0), built("b", 20.0, 14.0)]);
        let (_, exhibits) = session.finish();
        let [said] = &exhibits.conclusions[..] else { panic!("nothing is said of nothing") };
        assert!(
            said.sentence
                .contains("a 15.0 (10.0), b 14.0 (20.0); the farthest above its formula is a with 1.50")
        );
        assert!(said.sentence.ends_with("come in another order than their formulas."));
    }
}
