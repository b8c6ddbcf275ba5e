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
