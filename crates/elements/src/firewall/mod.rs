//! The parts of the stateful firewall, whose element is [`Firewall`](crate::Firewall).
//!
//! | module | contents |
//! |---|---|
//! | [`rules`] | rules and their text |
//! | `opening` | first packets, as rules see them |
//! | `gate` | judges packets with the state of their flow |
//! | `sources` | flows per source address |
//! | `tallies` | counters per rule |
//! | `waiting` | fragments that wait for the rest of their packet |

pub(crate) mod gate;
pub(crate) mod opening;
pub mod rules;
pub(crate) mod sources;
pub(crate) mod tallies;
pub(crate) mod waiting;
