//! The figures and tables of the ScaleBricks paper (SIGCOMM'15), measured again.
//!
//! | module | contents |
//! |---|---|
//! | [`paper`] | all numbers that the paper reports |
//! | [`theory`] | probability that a hash function works, in closed form |
//! | [`search`] | search for a hash function with any number of cells |
//! | [`loads`] | group loads: direct hashing, and buckets with choices |
//! | [`cluster`] | flows that fit in a cluster, in closed form |
//! | `construction`, `generation`, `group_load`, `batches`, `capacity` | Table 1; Figures 3 and 4; group loads; Figure 7; Figure 11 |
//! | [`gateway`] | Figures 8 to 10 from the rows of the gateway benchmark |
//! | [`router`] | the figures and tables of the RouteBricks paper |
//! | [`dhash`] | the tables of the DHash paper |
//! | [`concise`] | the figures and tables of the Concise paper |
//! | [`tables`] | rows of other benchmarks as tables of `docs/measured.md` and `README.md` |
//! | [`chart`] | how charts are drawn |

pub mod batches;
pub mod capacity;
pub mod chart;
pub mod cluster;
pub mod concise;
pub mod construction;
pub mod dhash;
mod filled;
pub mod gateway;
pub mod generation;
pub mod goals;
pub mod group_load;
pub mod loads;
pub mod paper;
pub mod router;
pub mod search;
pub mod tables;
pub mod theory;

use crate::bench_run::BenchRun;
use crate::error::BenchError;

/// Measures Table 1, Figures 3, 4 and 7, and the load of the fullest groups (`setsep-figures`).
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    construction::run(bench)?;
    generation::run(bench)?;
    group_load::run(bench)?;
    batches::run(bench)
}

/// The names of content that has no place in a page.
#[cfg(test)]
pub(crate) fn without_place(page: &str, exhibits: &scalebricks_report::exhibit::Exhibits) -> Vec<String> {
    let places = scalebricks_report::pages::place::places(page).unwrap();
    let sheets = exhibits.sheets.iter().map(|sheet| sheet.name.clone());
    let said = exhibits.conclusions.iter().map(|said| said.name.clone());
    let charts = exhibits.charts.iter().map(|chart| format!("{}.svg", chart.name));
    let names = sheets.chain(said).chain(charts);
    names.filter(|name| places.iter().all(|place| place.name != *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../docs/figures.md");
        let options = Options { keys: Some(vec![20_000]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("figures", options);
        run(&mut bench).unwrap();
        capacity::run(&mut bench).unwrap();
        let (_, exhibits) = bench.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
        assert_eq!(exhibits.conclusions.len(), 6);
        for said in &exhibits.conclusions {
            assert!(!said.sentence.contains("NaN") && !said.sentence.contains("inf"), "{}", said.sentence);
        }
    }
}
