//! The switch for flat names: MAC addresses, IP addresses, tuples, or bytes of the frame.
//!
//! It forwards by a *Concise FIB* (Yu et al., ICNP 2016): an Othello table from names to the numbers of actions, 2.33 slots a
//! name, in which no name is stored. What it is for operators: docs/switch.md. `scalebricks_apps::switch` makes a graph of it.
//!
//! | module | what it holds |
//! |---|---|
//! | `flat_input`, `flat_lookup`, `flat_flood`, `flat_output` | the elements |
//! | [`name`], `key` | what a name is; from a frame to its name |
//! | [`action`], `route` | what is done with a frame; one hop of a routed packet |
//! | [`fib`] | names to actions, as workers look them up |
//! | [`names`] | the control side: names in full, changes under traffic, growth |
//! | [`storm`] | how much is flooded |
//!
//! The elements are given ports and tables when they are made, so configurations in the Click language cannot name them.

pub mod action;
pub mod fib;
mod flat_flood;
mod flat_input;
mod flat_lookup;
mod flat_output;
mod key;
pub mod name;
pub mod names;
mod route;
pub mod storm;

pub use action::{Action, MAX_ACTIONS, MAX_PORTS, PortNo};
pub use fib::{FibAnswer, FibReader, FlatFib, UnknownNamePolicy};
pub use flat_flood::FlatFlood;
pub use flat_input::FlatInput;
pub use flat_lookup::{FlatLookup, LookupRules};
pub use flat_output::{FlatOutput, FloodShare};
pub use name::{Base, BytesAt, FlatName, FlatTuple, Length, NameBytes, NameKind};
pub use names::{Changes, CheckBits, NameConfig, NameError, NameOp, NameStats, NameTable};
pub use storm::{StormGuard, StormRate};

use scalebricks_graph::Spec;
use scalebricks_io::PacketBuf;

/// What the elements are, in the order in which people are told what they count.
pub fn specs<P: PacketBuf + 'static>() -> [&'static Spec; 4] {
    [FlatInput::<P>::SPEC, FlatOutput::<P>::SPEC, FlatFlood::SPEC, FlatLookup::SPEC]
}
