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
//! | [`goals`] | our own goals, from the rows of the other parts |

pub mod arrivals;
pub mod balancer;
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

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::limit;
use crate::options::named;
use crate::pin;
use crate::row::Row;
use crate::sheet::{Sheet, counted};
use scalebricks_console::quantity::short_count;
use scalebricks_tables::othello::Sizing;

/// The function of a part.
type Run = fn(&mut BenchRun<'_>) -> Result<(), BenchError>;

/// The parts of the evaluation, which can run alone, in the order in which they run: the name on the command
/// line, and the function. `figure-11` also measures Figure 10.
pub const PARTS: [(&str, Run); 16] = [
    ("table-2", memory::run),
    ("table-1", formulas::run),
    ("table-3", update_messages::run),
    ("figure-3", lookups::run),
    ("figure-4", name_lengths::run),
    ("figure-5", concurrent_updates::run),
    ("figure-6", delays::run),
    ("figure-7", construction::run),
    ("figure-8", updates::run),
    ("reconstruction", reconstruction::run),
    ("switches", shared_graph::run),
    ("figure-9", forwarding::run),
    ("figure-11", forwarding::run_links),
    ("figure-12", unknown_names::run),
    ("balancer", balancer::run),
    ("goals", goals::run),
];

/// The name of a part on the command line.
///
/// # Errors
/// A message with the valid names.
pub fn part(name: &str) -> Result<&'static str, String> {
    named(PARTS.map(|(name, _)| name), |name| name)(if name == "figure-10" { "figure-11" } else { name })
}

/// Runs the requested parts.
///
/// # Errors
/// The [`BenchError`] of the first part that fails.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let wanted = &bench.options.parts;
    for (name, run) in PARTS {
        if wanted.as_ref().is_none_or(|parts| parts.contains(&name)) {
            bench.check()?;
            bench.console.note(&format!("concise: {name}"));
            run(bench)?;
        }
    }
    Ok(())
}

/// A rate in millions with minimum and maximum, as pages show it.
fn millions(rate: &Row) -> String {
    let digits = |rate: f64| short(rate / 1e6, 2, 0);
    let median = digits(rate.median);
    if rate.runs < 2 {
        return median;
    }
    format!("{median} ({}–{})", digits(rate.min), digits(rate.max))
}

/// A figure with `few` digits after the point below ten, else with `many`.
fn short(figure: f64, few: usize, many: usize) -> String {
    let digits = if figure < 9.95 { few } else { many };
    format!("{figure:.digits$}")
}

/// Megabytes as the paper counts them.
fn megabytes(bytes: u64) -> String {
    short(bytes as f64 / 1e6, 2, 1)
}

/// The names of a row, as tables show them.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a sheet passes its items by reference")]
fn names(row: &&Row) -> String {
    short_count(row.case.keys)
}

/// Whether a row is of Othello's default sizing, or of a structure without sizings.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a filter passes items by reference")]
fn has_default_sizing(row: &&Row) -> bool {
    row.case.format.is_none_or(|format| format == Sizing::Sharded.name())
}

/// Whether a goal is met, in a word.
const fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

/// A number of threads, marked if there are fewer cores.
fn threads_text(threads: usize) -> String {
    counted(threads, "thread") + if threads > pin::cores() { ", oversubscribed" } else { "" }
}

/// Adds two columns to a sheet: a rate, and its share of the machine's limit. The empty cell is that of no row.
fn with_rate<'r, T>(
    sheet: Sheet<T>,
    heads: [String; 2],
    rows: &'r [Row],
    rate: impl Fn(&T) -> Option<&'r Row>,
) -> Sheet<T> {
    let [rate_head, share_head] = heads;
    let share = |row: &Row| limit::share_text(limit::share_of(rows, row));
    sheet
        .column(rate_head, |item| rate(item).map(millions).unwrap_or_default())
        .column(share_head, |item| rate(item).map(share).unwrap_or_default())
}

/// The two columns of [`with_rate`] for each number of threads.
fn with_threads<'r, T>(
    sheet: Sheet<T>,
    threads: &[usize],
    rows: &'r [Row],
    rate: impl Fn(&T, usize) -> Option<&'r Row>,
) -> Sheet<T> {
    threads.iter().fold(sheet, |sheet, &threads| {
        let limit = format!("{}, of the limit", counted(threads, "thread"));
        let heads = [format!("{}, M/s", threads_text(threads)), limit];
        with_rate(sheet, heads, rows, |item| rate(item, threads))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::without_place;
    use crate::options::Options;
    use crate::row::{Case, Metric};
    use scalebricks_report::stats::Summary;

    #[test]
    fn parts_have_names() {
        for (name, _) in PARTS {
            assert_eq!(part(name), Ok(name));
        }
        assert_eq!(part("figure-10"), Ok("figure-11"));
        assert!(part("figure-1").is_err());
    }

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../../docs/concise-figures.md");
        let options = Options {
            keys: Some(vec![3000]),
            quick: true,
            runs: Some(1),
            // With so small a table, the time without generator and sink may be zero and thus rejected.
            parts: Some(PARTS.map(|(name, _)| name).into_iter().filter(|&name| name != "figure-9").collect()),
            ..Options::default()
        };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        let (_, exhibits) = bench.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
    }

    #[test]
    fn rates_have_their_spread() {
        let rate = |figures: &[f64]| Row::new(Case::default(), Metric::LookupRate, Summary::of(figures));
        assert_eq!(millions(&rate(&[1e6, 2.5e6, 12e6])), "2.50 (1.00–12)");
        assert_eq!(millions(&rate(&[123.4e6])), "123");
        assert_eq!(megabytes(16_000_000), "16.0");
    }
}
