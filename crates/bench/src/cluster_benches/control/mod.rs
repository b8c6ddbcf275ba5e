//! `control`: the control plane. What an owner makes of its log on one core; updates through several nodes in this process
//! over one log on a disk; and how long a node's death and return take.
//!
//! | module | what it holds |
//! |---|---|
//! | `flows` | the flows, and what they are to lead to |
//! | `recompute`, `machine` | batches of changes, to GPT deltas and FIB updates |
//! | `rig` | a cluster in this process |
//! | `updates` | calls of the API, to the log and to all tables |
//! | `recovery` | a node dies, and starts anew |
//! | `scale` | many nodes with many flows |

mod flows;
mod machine;
mod recompute;
mod recovery;
mod rig;
mod scale;
mod updates;

pub(crate) use scale::run as run_scale;
use scalebricks_bench::options::Options;
use scalebricks_bench::structures;
use scalebricks_bench::{BenchError, BenchRun};
use scalebricks_tables::compact::Structure;

/// What the GPT is made of: what was asked for, or else `unasked`.
fn gpts(options: &Options, unasked: &[Structure]) -> Vec<Structure> {
    let Some(asked) = &options.structures else { return unasked.to_vec() };
    let of = |structure| match structure {
        Structure::SetSep => structures::Structure::SetSep,
        Structure::Othello => structures::Structure::Othello,
    };
    Structure::ALL.into_iter().filter(|&structure| asked.contains(&of(structure))).collect()
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    recompute::measure(bench)?;
    updates::measure(bench)?;
    recovery::measure(bench)
}
