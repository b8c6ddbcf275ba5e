use super::*;

fn live(names: u64, change: Change) -> LiveTable {
    let set = Population::of(Kind::Mac, names, 3);
    let others = Kind::Mac.hashes(set.len(), set.len().div_ceil(ALTERED));
    LiveTable::new(set, change, others).unwrap()
}

#[test]
fn updates_arrive_while_names_are_asked_for() {
    for change in Change::ALL {
        let mut live = live(5000, change);
        let (asked, updates) = live.measure(f64::INFINITY, Duration::from_millis(40)).unwrap();
        assert!(asked > 0.0 && updates > 0.0);
        live.check().unwrap();
        let (_, updates) = live.measure(0.0, Duration::from_millis(5)).unwrap();
        assert!(updates < 1e-9);
        live.flipped[3] = !live.flipped[3];
        let is_noticed = live.check().is_err();
        // A name that was never added may have the right action by chance: one in eight.
        assert!(is_noticed || change == Change::Replace, "an update that was lost is noticed");
    }
}

#[test]
fn a_refused_batch_is_forgotten() {
    for (change, updates) in [(Change::Alter, 5), (Change::Replace, 10)] {
        let mut live = live(100, change);
        let mut made = Vec::new();
        (0..5).for_each(|_| live.push_ops(&mut made));
        assert_eq!(made.len(), updates);
        live.undo_ops(made.len());
        assert!(live.flipped.iter().all(|&is_flipped| !is_flipped));
    }
}

#[test]
fn updates_are_paced() {
    let mut live = live(2000, Change::Alter);
    let (_, updates) = live.measure(1000.0, Duration::from_millis(200)).unwrap();
    assert!(updates < 1100.0, "no more than asked for: {updates}");
}

#[test]
fn lookups_stand_beside_the_limit_of_the_table_as_it_is() {
    let options = crate::options::Options {
        keys: Some(vec![5000]),
        quick: true,
        runs: Some(2),
        ..crate::options::Options::default()
    };
    let mut bench = BenchRun::for_test("concise", options);
    run(&mut bench).unwrap();
    let of = |metric: Metric| bench.rows().iter().filter(move |row| row.metric == metric);
    let turns = Change::ALL.len() * RATES.len();
    assert_eq!(of(Metric::LookupRate).filter(|row| limit::is_limit(&row.case)).count(), turns);
    assert_eq!((of(Metric::ShareOfLimit).count(), of(Metric::LookupRate).count()), (2 * turns, 3 * turns));
    assert!(of(Metric::ShareOfLimit).all(|row| row.min > 0.0 && row.max.is_finite()));
    let (_, exhibits) = bench.finish();
    let sheet = &exhibits.sheets[0];
    assert!(sheet.rows.len() == turns && sheet.rows.iter().all(|row| row.len() == sheet.heads.len()));
}
