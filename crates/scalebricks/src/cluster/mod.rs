//! What makes nodes a cluster.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mesh`] | how nodes speak to each other about the cluster: signs of life, and messages |

pub mod mesh;
