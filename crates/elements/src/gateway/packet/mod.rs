//! What is done to a packet.
//!
//! | module | what it holds |
//! |---|---|
//! | [`classify`], `plain`, [`fragment_cache`] | from a frame to its flow key |
//! | `tunnels`, [`identification`] | the two ends of a tunnel |
//! | [`oversize`] | what does not fit |
//! | [`policy`] | what is decided about packets |

pub mod classify;
pub mod fragment_cache;
pub mod identification;
pub mod oversize;
pub(super) mod plain;
pub mod policy;
pub(super) mod tunnels;
