//! A switch for flat names: MAC addresses, IP addresses, tuples, or bytes of the frame.
//!
//! It forwards by a *Concise FIB* (Yu et al., ICNP 2016): an Othello table from names to the numbers of actions, 2.33 slots a
//! name, in which no name is stored. What it is for operators: docs/switch.md.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`], `parse` | what a name is; from a frame to its name |
//! | [`action`], `route` | what is done with a frame; one hop of a routed packet |
//! | [`fib`] | names to actions, as workers look them up |
//! | [`names`] | the control side: names in full, changes under traffic, growth |
//! | [`storm`], [`reason`], [`stats`] | how much is flooded; drops by name; counters |
//! | [`switch`], [`output`] | the switch itself; its ports, and who may not send to whom |
//! | [`text`], [`file`] | names and actions as text; the file of names |

pub mod action;
pub mod fib;
pub mod file;
pub mod name;
pub mod names;
pub mod output;
mod parse;
pub mod reason;
mod route;
pub mod stats;
pub mod storm;
pub mod switch;
pub mod text;

pub use action::{Action, MAX_ACTIONS, MAX_PORTS, PortNo};
pub use fib::{Answer, FibReader, FlatFib, Unknown};
pub use name::{Base, BytesAt, FlatName, FlatTuple, Length, NameBytes, NameKind};
pub use names::{Changes, CheckBits, NameConfig, NameError, NameOp, NameStats, NameTable};
pub use output::{PortGroup, SwitchPort};
pub use reason::{SwitchDrop, SwitchDrops};
pub use stats::PortCounts;
pub use storm::{StormGuard, StormRate};
pub use switch::{FlatSwitch, SwitchPolicy};
