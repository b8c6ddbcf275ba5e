//! The node's own fitness: whether its workers run, its links are up, its next hops answer, and the other nodes can be
//! reached over the fabric.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | derives from observations why the node is unfit; does no I/O |
//! | [`view`] | the latest result, shared with other threads |
//! | [`interface`] | the kernel's state of an interface, where the driver does not report it |
//! | [`watch`] | a thread that observes every 50 ms, informs the control plane, and drops frames for dead links |

pub mod interface;
pub mod machine;
pub mod view;
pub mod watch;

pub use machine::{Condition, Health, Observation, Reach};
pub use view::HealthView;
