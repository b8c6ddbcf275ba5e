//! The guarantees of the cluster router, in a packet-level simulation that runs its graphs.
//!
//! Time passes in slots of a millisecond, in which a port of rate R receives [`SLOT_PACKETS`] packets of one length. A
//! traffic matrix is admissible if no input and no output gets more than R.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::float_cmp, reason = "numbers that must be equal exactly")]
#![allow(clippy::disallowed_macros, clippy::print_stdout, reason = "measures of a run, for `--nocapture`")]

mod example;
mod fly;
mod links;
mod matrix;
mod mesh;
mod neighbours;
mod node_rig;
mod order;
mod rig;
