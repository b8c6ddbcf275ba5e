//! The guarantees of the cluster router, in a packet-level simulation that runs its graphs.
//!
//! Time passes in slots of a millisecond, in which a port of rate R receives [`SLOT_PACKETS`] packets of one length. A
//! traffic matrix is admissible if no input and no output gets more than R.

mod example;
mod fly;
mod matrix;
mod mesh;
mod order;
mod rig;
