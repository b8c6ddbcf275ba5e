//! Costs of the stages of a tracker of flows.

use serde::Serialize;

/// What a packet costs in each stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Reading a packet of a capture or port.
    pub capture: f64,
    /// Choosing the application core.
    pub balance: f64,
    /// A packet in a ring, at one end.
    pub fifo: f64,
    /// IP: validation, fragments.
    pub l3: f64,
    /// The rest: lookup, TCP, streams.
    pub tcp: f64,
    /// Units of these costs in a second: the clock rate for cycles, 1e9 for nanoseconds.
    pub units_per_second: f64,
}

/// Why there are no such costs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CostError {
    /// A cost makes no sense.
    #[error(
        "the cost of {stage} is {cost}: costs are numbers from 0 to 1e12, and those of stages with work above 0"
    )]
    Cost {
        /// The stage.
        stage: &'static str,
        /// Its cost.
        cost: f64,
    },
    /// Not a result of the benchmark.
    #[error("not a JSON result of `scalebricks-bench dhash`: {0}")]
    Json(String),
    /// The benchmark has not measured a stage.
    #[error(
        "the result has no row for the stage {0:?}: run `scalebricks-bench dhash --json-file FILE` once more"
    )]
    NoStage(&'static str),
}

/// Names of the stages in rows of the benchmark.
const STAGES: [&str; 5] = ["capture read", "load balance", "FIFO", "L3", "TCP"];

impl Costs {
    /// Table III of the paper: cycles with File-1, at 2.4 GHz.
    pub const PAPER: Self =
        Self { capture: 35.0, balance: 30.0, fifo: 50.0, l3: 100.0, tcp: 700.0, units_per_second: 2.4e9 };

    /// Whether a plan can be made of them.
    ///
    /// # Errors
    /// [`CostError::Cost`].
    pub fn check(&self) -> Result<(), CostError> {
        let costs = [self.capture, self.balance, self.fifo, self.l3, self.tcp];
        for (stage, cost) in STAGES.into_iter().zip(costs) {
            if !(0.0..=1e12).contains(&cost) {
                return Err(CostError::Cost { stage, cost });
            }
        }
        let (input, application) = (self.capture + self.balance, self.l3 + self.tcp);
        for (stage, cost) in [("the input stage", input), ("the application stage", application)] {
            if cost <= 0.0 {
                return Err(CostError::Cost { stage, cost });
            }
        }
        if !(1.0..=1e15).contains(&self.units_per_second) {
            return Err(CostError::Cost { stage: "a second", cost: self.units_per_second });
        }
        Ok(())
    }
}

/// The costs that the benchmark has measured: nanoseconds, medians of its rows "stage".
///
/// # Errors
/// [`CostError`] if the text is no result of the benchmark, or lacks a stage.
pub fn measured(json: &str) -> Result<Costs, CostError> {
    let result: serde_json::Value =
        serde_json::from_str(json).map_err(|error| CostError::Json(error.to_string()))?;
    let rows = result.get("rows").and_then(|rows| rows.as_array());
    let rows = rows.ok_or_else(|| CostError::Json("it has no rows".to_owned()))?;
    let of = |stage: &'static str| {
        let is_it = |row: &&serde_json::Value| {
            row["bench"] == "dhash"
                && row["structure"] == "stage"
                && row["variant"] == stage
                && row["metric"] == "packet_time"
        };
        let median = rows.iter().find(is_it).and_then(|row| row["median"].as_f64());
        median.ok_or(CostError::NoStage(stage))
    };
    let [capture, balance, fifo, l3, tcp] = STAGES;
    let costs = Costs {
        capture: of(capture)?,
        balance: of(balance)?,
        fifo: of(fifo)?,
        l3: of(l3)?,
        tcp: of(tcp)?,
        units_per_second: 1e9,
    };
    costs.check()?;
    Ok(costs)
}
