//! Trackers of flows on several cores.
//!
//! A core has an input stage, an application stage, or both ([`Placement`]). The input stage receives packets and balances
//! them by flow ([`FlowBalance`](scalebricks_elements::FlowBalance)). The application stage tracks flows with a table of its
//! own. [`pipelines`] makes the graph of each core. A ring leads from each input stage to each application stage on another
//! core. A full ring drops packets as `handoff_full`.
//!
//! ```text
//!  1+3                                         3
//!  core 0: input ─▶ balance ─┬═ ring ═▶ core 1  core 0: input ─▶ balance ─┬─▶ application
//!                            ├═ ring ═▶ core 2                            ├═ ring ═▶ core 1: application
//!                            └═ ring ═▶ core 3                            └═ ring ═▶ core 2: application
//! ```
//!
//! Source: DHash, the section on pipelines: one input core, and several application cores with a FIFO each.

mod placement;
mod wiring;

pub use placement::{Core, MAX_CORES, Placement, PlacementError};
pub use wiring::{Balance, pipelines};
