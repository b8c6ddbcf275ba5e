//! How many cores a tracker of flows needs: the core formula of DHash.
//!
//! An input core reads and balances packets: `T_IP = capture + balance`. Application cores do the rest: `T_AP = L3 + TCP`.
//! Both pay for the FIFO between them. The stages are balanced where `T_IP + FIFO` is closest to `(T_AP + FIFO) / k`. With k
//! application cores the rate is at most the smaller one of `f / (T_IP + FIFO)` and `k f / (T_AP + FIFO)`, for a clock f.
//! These are bounds: caches and memory shared by cores take more.

mod costs;

pub use costs::{CostError, Costs, measured};

use serde::Serialize;

/// Most cores of a plan.
pub const MAX_CORES: u32 = 1_024;

/// A stage that has no time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The only core.
    OneCore,
    /// The input core: more cores do not help.
    Input,
    /// The application cores.
    Applications,
}

impl Limit {
    /// A name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneCore => "the core",
            Self::Input => "input core",
            Self::Applications => "application cores",
        }
    }
}

/// Bounds for a number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// All cores.
    pub cores: u32,
    /// Application cores behind one input core; 0 if one core does everything.
    pub applications: u32,
    /// At most so many packets per second, in millions.
    pub mpps: f64,
    /// What limits it.
    pub limit: Limit,
    /// The same if each core does everything, and hands over packets of other cores' flows.
    pub run_to_completion_mpps: f64,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Costs of the stages.
    pub costs: Costs,
    /// Cost of the input stage with FIFO.
    pub input: f64,
    /// Cost of the application stage with FIFO.
    pub application: f64,
    /// Application cores for which input and applications are closest.
    pub balanced: u32,
    /// By number of cores.
    pub rows: Vec<Row>,
}

impl Costs {
    /// `T_IP` and FIFO.
    pub fn input(&self) -> f64 {
        self.capture + self.balance + self.fifo
    }

    /// `T_AP` and FIFO.
    pub fn application(&self) -> f64 {
        self.l3 + self.tcp + self.fifo
    }

    /// Packets per second for a cost per packet, in millions.
    fn mpps(&self, cost: f64) -> f64 {
        self.units_per_second / cost / 1e6
    }

    fn row(&self, cores: u32) -> Row {
        // Each core balances its own packets, and all but one in `cores` cross a ring, which both ends pay for.
        let others = f64::from(cores - 1) / f64::from(cores);
        let alone = self.capture + self.l3 + self.tcp;
        let shared = if cores == 1 { alone } else { alone + self.balance + 2.0 * others * self.fifo };
        let run_to_completion_mpps = f64::from(cores) * self.mpps(shared);
        if cores == 1 {
            let (mpps, limit) = (self.mpps(alone), Limit::OneCore);
            return Row { cores, applications: 0, mpps, limit, run_to_completion_mpps };
        }
        let applications = cores - 1;
        let by_input = self.mpps(self.input());
        let by_applications = f64::from(applications) * self.mpps(self.application());
        let (mpps, limit) = if by_input <= by_applications {
            (by_input, Limit::Input)
        } else {
            (by_applications, Limit::Applications)
        };
        Row { cores, applications, mpps, limit, run_to_completion_mpps }
    }

    /// The application cores for which input and applications are closest, at most [`MAX_CORES`].
    fn balanced(&self) -> u32 {
        let exact = (self.application() / self.input()).clamp(1.0, f64::from(MAX_CORES));
        #[expect(clippy::cast_sign_loss, reason = "1 to MAX_CORES")]
        let below = exact.floor() as u32;
        let difference = |cores: u32| (self.input() - self.application() / f64::from(cores)).abs();
        if below < MAX_CORES && difference(below + 1) < difference(below) { below + 1 } else { below }
    }
}

/// The bounds for 1 to `cores` cores, at most [`MAX_CORES`].
///
/// # Errors
/// [`CostError`] if a cost is not a positive number, or the FIFO's or balancer's negative.
pub fn plan(costs: &Costs, cores: u32) -> Result<Plan, CostError> {
    costs.check()?;
    Ok(Plan {
        costs: *costs,
        input: costs.input(),
        application: costs.application(),
        balanced: costs.balanced(),
        rows: (1..=cores.clamp(1, MAX_CORES)).map(|cores| costs.row(cores)).collect(),
    })
}

#[cfg(test)]
mod tests;
