//! The switch for flat names as a graph: elements of [`scalebricks_elements::flat`] for each port, and its counters.
//!
//! ```text
//! rack1/in ─▶ rack1/lookup ┬──────────────▶ rack1/out ─▶ rack2/out …      frames for a port go to its output,
//! rack2/in ─▶ rack2/lookup ┼─▶ rack2/flood ─────┘ flood      │           flooded ones past all outputs
//!                          └──────────────────────────▶ rack2/out
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`mod@wiring`] | ports, and the graph between them |
//! | [`counts`] | counters by port |
//! | [`text`], [`mod@file`] | names and actions as text; the file of names |

pub mod counts;
pub mod file;
pub mod text;
pub mod wiring;

pub use counts::PortCounts;
pub use wiring::{PortGroup, SwitchPolicy, SwitchPort, wiring};
