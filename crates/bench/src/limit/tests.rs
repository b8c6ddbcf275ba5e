use super::*;
use crate::bench_run::BenchRun;
use crate::benches::ALL;
use crate::options::Options;
use scalebricks_report::stats::Summary;

/// The rows of a benchmark with few keys.
fn rows_of(name: &str) -> Vec<Row> {
    let bench = ALL.into_iter().find(|bench| bench.name == name).unwrap();
    let keys = 3000;
    let options = Options { keys: Some(vec![keys]), runs: Some(3), quick: true, ..Options::default() };
    let mut run = BenchRun::for_test(bench.name, options);
    (bench.run)(&mut run).unwrap();
    run.finish().0
}

#[test]
fn lookups_of_ours_have_a_share_of_a_limit() {
    for (bench, ours) in [
        ("setsep-lookup", &["setsep", "othello", "full-copy", "cuckoo"][..]),
        ("turned-over", &["setsep", "othello"]),
        ("fib", &["cuckoo"]),
        ("choice", &["setsep", "othello", "full-copy"]),
    ] {
        let rows = rows_of(bench);
        let half = |row: &Row| row.case.is_variant("half-moved");
        let lookups = rows
            .iter()
            .filter(|row| row.metric == Metric::LookupRate && ours.contains(&row.case.structure.as_str()));
        let (limits, lookups): (Vec<&Row>, Vec<&Row>) = lookups.partition(|row| is_limit(&row.case));
        assert!(limits.len() >= ours.len(), "{bench}");
        for row in lookups.into_iter().filter(|row| !half(row)) {
            let share = share_of(&rows, row).unwrap();
            assert!(share.min > 0.0 && share.max.is_finite() && share.runs == row.runs);
            let same = |of: &&&Row| {
                let as_many = (of.case.batch, of.case.threads) == (row.case.batch, row.case.threads);
                as_many && of.case.structure == row.case.structure && of.case.format == row.case.format
            };
            assert!(limits.iter().any(|limit| same(&limit)), "{:?}", row.case);
        }
    }
}

#[test]
fn shares_are_told_with_their_spread() {
    let case = Case { structure: "a".to_owned(), keys: 9, ..Case::default() };
    let row = |metric, figures: &[f64]| Row::new(case.clone(), metric, Summary::of(figures));
    let lookups = row(Metric::LookupRate, &[5e6, 6e6, 7e6]);
    assert_eq!(share_text(share_of(std::slice::from_ref(&lookups), &lookups)), NO_REPLAY);
    let several = row(Metric::ShareOfLimit, &[0.5, 0.4, 0.61]);
    assert_eq!(share_text(share_of(&[lookups.clone(), several], &lookups)), "0.50 (0.40–0.61)");
    assert_eq!(share_text(Some(&row(Metric::ShareOfLimit, &[1.25]))), "1.25");
}

#[test]
fn a_limit_is_measured_once_for_each_way_to_ask() {
    let memory = vec![0_u64; 8 * 100];
    let visit = |memory: &[u64], visit: &mut dyn FnMut(usize, *const u8)| {
        (0..100).for_each(|place| visit(place, (&raw const memory[8 * place]).cast()));
    };
    let limits = Limits::new(Replay::record(&memory[..], 100, visit), 3);
    let none = Limits::new(None, 1);
    let options = Options { runs: Some(2), ..Options::default() };
    let mut bench = BenchRun::for_test("test", options);
    let mut turns = Vec::new();
    for (limits, structure) in [(&limits, "told"), (&none, "untold")] {
        for (variant, batch) in [("a", 8), ("b", 8), ("a", 64)] {
            let case = bench.case(structure, 100).variant(variant.to_owned()).batch(batch).threads(1);
            turns.extend(limits.turns(case, LIMIT.to_owned(), |lookups: &mut f64| Ok(*lookups)));
        }
    }
    crate::rounds::interleave(&mut bench, &mut 5.0, turns).unwrap();
    let rows = bench.rows();
    let (limits, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_limit(&row.case));
    assert_eq!(limits.iter().map(|row| row.case.batch).collect::<Vec<_>>(), [Some(8), Some(64)]);
    for row in others.iter().filter(|row| row.metric == Metric::LookupRate) {
        let share = share_of(rows, row)
            .map(|share| share.max * limits.iter().map(|limit| limit.max).fold(0.0, f64::max));
        assert_eq!(share.is_some(), row.case.structure == "told");
        assert!(share.is_none_or(|lookups| lookups >= 4.999), "of a limit that was measured");
    }
    assert_eq!((limits.len(), others.len()), (2, 3 * 2 + 3));
}
