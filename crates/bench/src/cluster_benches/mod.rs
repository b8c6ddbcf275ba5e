//! The benchmarks that need a whole cluster.

pub(crate) mod control;
pub(crate) mod gateway;
