use super::*;
use proptest::prelude::*;

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// What follows from Table III: 835 cycles on one core, 2.8 to 19.8 Mpps with 1 to 7 application cores, 20.9 at the input.
#[test]
fn bounds_of_the_paper() {
    let plan = plan(&Costs::PAPER, 9).unwrap();
    assert_eq!((plan.input, plan.application), (115.0, 850.0));
    let mpps: Vec<f64> = plan.rows.iter().map(|row| tenth(row.mpps)).collect();
    assert_eq!(mpps, [2.9, 2.8, 5.6, 8.5, 11.3, 14.1, 16.9, 19.8, 20.9]);
    assert_eq!(plan.balanced, 7, "115 is closest to 850 / 7 = 121");
    assert_eq!(plan.rows[7].limit, Limit::Applications);
    assert_eq!(plan.rows[8].limit, Limit::Input, "eight application cores are too many");
    // With six, the paper measures 16.3 Mpps.
    assert!((16.3 / plan.rows[6].mpps * 100.0 - 96.0).abs() < 0.5);
}

#[test]
fn costs_come_from_a_result_of_the_benchmark() {
    let row = |stage: &str, ns: f64| {
        format!(
            r#"{{"bench":"dhash","structure":"stage","variant":"{stage}","metric":"packet_time","median":{ns}}}"#
        )
    };
    let all = [("capture read", 3.0), ("load balance", 20.0), ("FIFO", 5.0), ("L3", 10.0), ("TCP", 80.0)];
    let result = |stages: &[(&str, f64)]| {
        let rows: Vec<String> = stages.iter().map(|(stage, ns)| row(stage, *ns)).collect();
        format!(r#"{{"cpu":"x","rows":[{}]}}"#, rows.join(","))
    };
    let costs = measured(&result(&all)).unwrap();
    assert_eq!((costs.input(), costs.application(), costs.units_per_second), (28.0, 95.0, 1e9));
    assert_eq!(measured(&result(&all[..4])), Err(CostError::NoStage("TCP")));
    assert!(matches!(measured("{}"), Err(CostError::Json(_))));
    assert!(matches!(measured("x"), Err(CostError::Json(_))));
    let negative = [all[0], all[1], ("FIFO", -5.0), all[3], all[4]];
    assert_eq!(measured(&result(&negative)), Err(CostError::Cost { stage: "FIFO", cost: -5.0 }));
}

#[test]
fn impossible_costs_are_refused() {
    let wrong = |costs: Costs| plan(&costs, 4).unwrap_err().to_string();
    assert!(wrong(Costs { capture: 0.0, balance: 0.0, ..Costs::PAPER }).contains("the input stage"));
    assert!(wrong(Costs { tcp: f64::NAN, ..Costs::PAPER }).contains("TCP"));
    assert!(wrong(Costs { units_per_second: 0.0, ..Costs::PAPER }).contains("a second"));
}

proptest! {
    /// More cores never lower the bound of a pipeline but from one core to two; the balanced number is the best of all.
    #[test]
    fn bounds_grow_until_the_input_is_full(
        capture in 1.0..500.0_f64, balance in 0.0..500.0_f64, fifo in 0.0..500.0_f64, l3 in 0.0..500.0_f64, tcp in 1.0..5_000.0_f64,
    ) {
        let costs = Costs { capture, balance, fifo, l3, tcp, units_per_second: 1e9 };
        let plan = plan(&costs, 40).unwrap();
        prop_assert!(plan.rows[1..].is_sorted_by(|a, b| a.mpps <= b.mpps));
        let input = 1e3 / costs.input();
        prop_assert!(plan.rows[1..].iter().all(|row| row.mpps <= input * 1.000_001));
        let apart = |cores: u32| (costs.input() - costs.application() / f64::from(cores)).abs();
        prop_assert!((1..=MAX_CORES).all(|cores| apart(plan.balanced) <= apart(cores)));
        // A single core pays neither for balancing nor for a FIFO.
        prop_assert!(plan.rows.iter().all(|row| row.run_to_completion_mpps <= f64::from(row.cores) * plan.rows[0].mpps * 1.000_001));
    }
}
