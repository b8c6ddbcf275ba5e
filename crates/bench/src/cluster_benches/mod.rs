//! The benchmarks that need a whole cluster.

mod control;
mod gateway;

pub(crate) use control::Control;
pub(crate) use gateway::Gateway;
