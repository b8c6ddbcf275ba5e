//! The evaluation of "A Concise Forwarding Information Base for Scalable and Fast Name Lookups", measured
//! again.
//!
//! | module | contents |
//! |---|---|
//! | [`paper`] | all numbers that the paper reports, as far as we know them |
//! | [`fibs`] | the structures behind one interface, names in and actions out |
//! | [`formulas`], [`memory`], [`update_messages`] over [`delta_decoder`] | Tables I, II and III |
//! | [`lookup_runs`] | lookups on several threads with checked answers |
//! | [`lookups`], [`name_lengths`], [`concurrent_updates`] | Figures 3, 4 and 5: lookups alone, by name length and threads, and during updates |
//! | [`delays`] over [`queue`], [`arrivals`] | Figure 6: simulated packet delays |
//! | [`construction`], [`updates`] | Figures 7 and 8: construction, updates |
//! | [`reconstruction`] | cost and frequency of range reconstructions |
//! | [`shared_graph`] | several switches with their own actions from one graph |
//! | [`forwarding`] | Figures 9 to 11: packets from port to port, in memory and over DPDK's ports |
//! | [`unknown_names`], [`balancer`] | Figure 12: unknown names, and unknown names as new flows |
//! | [`conclusions`] | one sentence for each table and figure |
//! | [`goals`] | our own goals, from the rows of the other parts |

pub mod arrivals;
pub mod balancer;
pub mod conclusions;
pub mod concurrent_updates;
pub mod construction;
pub mod delays;
pub mod delta_decoder;
pub mod fibs;
pub mod formulas;
pub mod forwarding;
pub mod goals;
pub mod lookup_runs;
pub mod lookups;
pub mod memory;
pub mod name_lengths;
pub mod paper;
pub mod queue;
pub mod reconstruction;
pub mod shared_graph;
pub mod unknown_names;
pub mod update_messages;
pub mod updates;

use crate::error::BenchError;
use crate::options::named;
use crate::row::Row;
use crate::session::Session;
use scalebricks_report::exhibit::{Chart, Mark, Point, Series};
use scalebricks_report::stats::Summary;

/// A part of the evaluation that can run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Costs by formula.
    Table1,
    /// Memory and cache lines per query.
    Table2,
    /// Sizes of update messages.
    Table3,
    /// Lookups by number of names.
    Figure3,
    /// Lookups by name length and threads.
    Figure4,
    /// Lookups during updates.
    Figure5,
    /// Delays.
    Figure6,
    /// Construction.
    Figure7,
    /// Updates.
    Figure8,
    /// Range reconstructions.
    Reconstruction,
    /// Switches with the same names.
    Switches,
    /// Forwarding in memory.
    Figure9,
    /// Forwarding between ports: Figures 10 and 11.
    Figure11,
    /// Unknown names.
    Figure12,
    /// Unknown names as new flows.
    Balancer,
    /// Our own goals.
    Goals,
}

/// The function of a part.
type Run = fn(&mut Session<'_>) -> Result<(), BenchError>;

impl Part {
    /// All parts in the order in which they run.
    pub const ALL: [Self; 16] = [
        Self::Table2,
        Self::Table1,
        Self::Table3,
        Self::Figure3,
        Self::Figure4,
        Self::Figure5,
        Self::Figure6,
        Self::Figure7,
        Self::Figure8,
        Self::Reconstruction,
        Self::Switches,
        Self::Figure9,
        Self::Figure11,
        Self::Figure12,
        Self::Balancer,
        Self::Goals,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table1 => "table-1",
            Self::Table2 => "table-2",
            Self::Table3 => "table-3",
            Self::Figure3 => "figure-3",
            Self::Figure4 => "figure-4",
            Self::Figure5 => "figure-5",
            Self::Figure6 => "figure-6",
            Self::Figure7 => "figure-7",
            Self::Figure8 => "figure-8",
            Self::Reconstruction => "reconstruction",
            Self::Switches => "switches",
            Self::Figure9 => "figure-9",
            Self::Figure11 => "figure-11",
            Self::Figure12 => "figure-12",
            Self::Balancer => "balancer",
            Self::Goals => "goals",
        }
    }

    /// Parses a name of the command line. Figure 10 is measured with Figure 11.
    ///
    /// # Errors
    /// A message with the valid names.
    pub fn parse(name: &str) -> Result<Self, String> {
        named(Self::ALL, Self::name)(if name == "figure-10" { "figure-11" } else { name })
    }

    const fn run(self) -> Run {
        match self {
            Self::Table1 => formulas::run,
            Self::Table2 => memory::run,
            Self::Table3 => update_messages::run,
            Self::Figure3 => lookups::run,
            Self::Figure4 => name_lengths::run,
            Self::Figure5 => concurrent_updates::run,
            Self::Figure6 => delays::run,
            Self::Figure7 => construction::run,
            Self::Figure8 => updates::run,
            Self::Reconstruction => reconstruction::run,
            Self::Switches => shared_graph::run,
            Self::Figure9 => forwarding::run,
            Self::Figure11 => forwarding::run_links,
            Self::Figure12 => unknown_names::run,
            Self::Balancer => balancer::run,
            Self::Goals => goals::run,
        }
    }
}

/// Runs the requested parts.
///
/// # Errors
/// The [`BenchError`] of the first part that fails.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let wanted = session.options();
    for part in Part::ALL.into_iter().filter(|&part| wanted.wants(part)) {
        session.check()?;
        session.console().note(&format!("concise: {}", part.name()));
        part.run()(session)?;
    }
    Ok(())
}

/// A rate in millions with minimum and maximum, as pages show it.
fn millions(rate: &Summary) -> String {
    let digits = |rate: f64| {
        let millions = rate / 1e6;
        if millions < 9.95 { format!("{millions:.2}") } else { format!("{millions:.0}") }
    };
    if rate.runs > 1 {
        format!("{} ({}–{})", digits(rate.median), digits(rate.min), digits(rate.max))
    } else {
        digits(rate.median)
    }
}

/// Adds a row to the series with this name, and creates the series if needed.
fn add_point(chart: &mut Chart, name: &str, x: f64, row: &Row, unit: f64) {
    let point = Point::measured(x, row.summary(), unit);
    if let Some(series) = chart.series.iter_mut().find(|series| series.name == name) {
        series.points.push(point);
        return;
    }
    let colour = chart.series.len();
    chart.series.push(Series::new(name, Mark::Dotted, colour, vec![point]));
}

/// Megabytes as the paper counts them.
fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 9.95 { format!("{megabytes:.2}") } else { format!("{megabytes:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::without_place;
    use crate::options::Options;

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(Part::parse(part.name()), Ok(part));
        }
        assert_eq!(Part::parse("figure-10"), Ok(Part::Figure11));
        assert!(Part::parse("figure-1").is_err());
    }

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../../docs/concise-figures.md");
        let options = Options {
            keys: Some(vec![3000]),
            quick: true,
            runs: Some(1),
            // With so small a table, the time without generator and sink may be zero and thus rejected.
            parts: Some(Part::ALL.into_iter().filter(|&part| part != Part::Figure9).collect()),
            ..Options::default()
        };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
    }

    #[test]
    fn rates_have_their_spread() {
        assert_eq!(millions(&Summary::of(&[1e6, 2.5e6, 12e6])), "2.50 (1.00–12)");
        assert_eq!(millions(&Summary::exact(123.4e6)), "123");
        assert_eq!(megabytes(16_000_000), "16.0");
    }
}
