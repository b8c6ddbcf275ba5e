//! The switch for flat names: MAC addresses, IP addresses, tuples, or bytes of the frame.
//!
//! It forwards by a *Concise FIB* (Yu et al., ICNP 2016): an Othello table from names to action numbers, 2.33 slots per
//! name, which stores no names. For operators: docs/switch.md. `scalebricks_apps::switch` builds its graph.
//!
//! | module | contents |
//! |---|---|
//! | `flat_input`, `flat_lookup`, `flat_flood`, `flat_output` | the elements |
//! | [`name`], `key` | the kinds of names; from a frame to its name |
//! | [`action`], `route` | what is done with a frame; one routed hop |
//! | [`fib`] | the lookup side: names to actions |
//! | [`names`] | the control side: full names, updates under traffic, growth |
//! | [`storm`] | limits on flooding |
//!
//! The elements receive ports and tables when they are made, so configurations in the Click language cannot name them.

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

/// The specs of the elements, in the order in which their counters are shown.
pub fn specs<P: PacketBuf + 'static>() -> [&'static Spec; 4] {
    [FlatInput::<P>::SPEC, FlatOutput::<P>::SPEC, FlatFlood::SPEC, FlatLookup::SPEC]
}
