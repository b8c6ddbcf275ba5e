//! What a node knows about its own fitness: whether its workers turn, its links are up, its next hops answer, and the other nodes
//! can be reached over the fabric.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | from what is seen to why the node is unfit: without I/O |
//! | [`view`] | the newest answer, for whoever asks |
//! | [`interface`] | the kernel's state of an interface, where the driver does not know it |
//! | [`watch`] | a thread that looks every 50 ms, tells the control plane, and has frames for dead links dropped |

pub mod interface;
pub mod machine;
pub mod view;
pub mod watch;

pub use machine::{Condition, Health, Look, Reach};
pub use view::HealthView;
