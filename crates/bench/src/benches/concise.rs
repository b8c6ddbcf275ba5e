//! `concise`: the evaluation of the Concise paper, run again.

use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::concise;
use crate::session::Session;

/// The benchmark.
#[derive(Debug)]
pub struct Concise;

impl Bench for Concise {
    fn name(&self) -> &'static str {
        "concise"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        concise::run(session)
    }

    fn draws_itself(&self) -> bool {
        true
    }
}
