//! `setsep-figures` and `capacity`: figures and tables of the ScaleBricks paper, run again.

use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{batches, capacity, construction, generation, group_load};
use crate::session::Session;

/// Table 1, Figures 3, 4 and 7, and how full groups are.
#[derive(Debug)]
pub struct SetSepFigures;

impl Bench for SetSepFigures {
    fn name(&self) -> &'static str {
        "setsep-figures"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        construction::run(session)?;
        generation::run(session)?;
        group_load::run(session)?;
        batches::run(session)
    }

    fn draws_itself(&self) -> bool {
        true
    }
}

/// Figure 11.
#[derive(Debug)]
pub struct Capacity;

impl Bench for Capacity {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        capacity::run(session)
    }

    fn draws_itself(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::without_place;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../docs/figures.md");
        let options = Options { keys: Some(vec![20_000]), quick: true, runs: Some(1), ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("figures", &options, &console, &interrupt);
        SetSepFigures.run(&mut session).unwrap();
        Capacity.run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
        assert_eq!(exhibits.conclusions.len(), 6);
        for said in &exhibits.conclusions {
            assert!(!said.sentence.contains("NaN") && !said.sentence.contains("inf"), "{}", said.sentence);
        }
    }
}
