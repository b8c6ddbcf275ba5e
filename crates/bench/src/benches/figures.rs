//! `setsep-figures`: figures and tables of the ScaleBricks paper, measured again.

use crate::error::BenchError;
use crate::figures::{batches, construction, generation, group_load};
use crate::session::Session;

/// Measures Table 1, Figures 3, 4 and 7, and the load of the fullest groups.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn setsep_figures(session: &mut Session<'_>) -> Result<(), BenchError> {
    construction::run(session)?;
    generation::run(session)?;
    group_load::run(session)?;
    batches::run(session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{capacity, without_place};
    use crate::options::Options;

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../docs/figures.md");
        let options = Options { keys: Some(vec![20_000]), quick: true, runs: Some(1), ..Options::default() };
        let mut session = Session::for_test("figures", options);
        setsep_figures(&mut session).unwrap();
        capacity::run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
        assert_eq!(exhibits.conclusions.len(), 6);
        for said in &exhibits.conclusions {
            assert!(!said.sentence.contains("NaN") && !said.sentence.contains("inf"), "{}", said.sentence);
        }
    }
}
