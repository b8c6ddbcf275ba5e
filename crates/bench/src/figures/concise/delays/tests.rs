use super::*;
use crate::options::Options;
use scalebricks_report::exhibit::PageTable;

#[test]
fn distributions_rise() {
    let figures: Vec<f64> = (1..=200).map(f64::from).collect();
    assert!(distribution(&figures).windows(2).all(|pair| pair[0].x <= pair[1].x && pair[0].y < pair[1].y));
}

#[test]
fn crossings_are_percentiles() {
    let even: Vec<f64> = (1..=1000).map(f64::from).collect();
    let tail: Vec<f64> = even.iter().map(|&ns| if ns <= 900.0 { ns - 0.5 } else { 2.0 * ns }).collect();
    let share = crossing(&tail, &even).unwrap();
    assert!((share - 0.9).abs() < 0.002, "{share}");
    assert_eq!((crossing(&even, &tail), crossing(&even, &even)), (None, Some(1.0)));
    assert!((within(&even, 250.0) - 0.25).abs() < 1e-9);
}

#[test]
fn what_is_saturated_is_no_delay() {
    let mut bench = BenchRun::for_test("concise", Options::default());
    let all = [None, Some(vec![5.0; 10])].map(|sorted| Delays {
        names: 1000,
        fib: Fib::Cuckoo,
        rate: 1,
        load: 1.5,
        sorted,
    });
    let gaps = ArrivalGaps::made();
    for delays in &all {
        add_rows(&mut bench, 8, &gaps, delays);
    }
    let table = PageTable::from(delay_table(&gaps, &all));
    assert!(table.rows[0][6..].iter().all(|cell| cell == "saturated"));
    assert!(table.rows.iter().all(|row| row.len() == 12));
    assert_eq!(bench.rows().len(), 3, "those of the second alone");
    assert_eq!(chart(1000, &gaps, &all).series.len(), 1);
    assert!(conclusion(1000, &gaps, &all[..1]).contains("Othello is saturated at 210 Kpps"));
}

#[test]
fn times_are_those_of_the_next_larger_batch() {
    let times = Times(vec![(1, vec![10.0]), (8, vec![50.0, 60.0]), (32, vec![99.0])]);
    let mut seed = 0;
    assert!((times.draw(1, &mut seed) - 10.0).abs() < 1e-9);
    assert!((0..20).all(|_| [50.0, 60.0].contains(&times.draw(3, &mut seed))));
    assert!((times.draw(31, &mut seed) - 99.0).abs() < 1e-9);
}

#[test]
fn every_batch_is_timed_and_right() {
    let bench = BenchRun::for_test("concise", Options::default());
    let names = Population::of(Kind::Mac, 500, 2);
    for fib in STRUCTURES {
        let times = measure(&bench, fib, &*fib.build(&names, 1).unwrap(), &names).unwrap();
        for (_, times) in &times.0 {
            assert!(times.len() == SAMPLES && times.iter().all(|&time| time > 0.0), "{}", fib.name());
        }
    }
}

#[test]
fn times_that_were_not_measured_are_rejected_and_counted() {
    let bench = BenchRun::for_test("concise", Options::default());
    let times = |disturbed: usize| {
        // The first times are zero or negative.
        let of = |n: usize| if n < disturbed { -(n as f64) } else { n as f64 };
        (0..SAMPLES + SPARES).map(of).collect::<Vec<f64>>()
    };
    for disturbed in [3, SPARES] {
        let before = bench.rejected();
        let left = undisturbed(&bench, "a", times(disturbed)).unwrap();
        assert!(left.len() == SAMPLES && (left[0] - disturbed as f64).abs() < 1e-9);
        assert_eq!(bench.rejected(), before + disturbed);
    }
    let error = undisturbed(&bench, "a", times(SPARES + 1)).unwrap_err();
    assert!(matches!(error, BenchError::Rejected { .. }), "{error}");
}
