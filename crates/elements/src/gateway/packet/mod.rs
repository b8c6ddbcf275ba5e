//! Processing of single packets.
//!
//! | module | contents |
//! |---|---|
//! | [`classify`], `plain`, [`fragment_cache`] | from a frame to its flow key |
//! | `tunnels`, [`identification`] | encapsulation and decapsulation |
//! | [`oversize`] | packets that exceed the MTU |
//! | [`policy`] | configured decisions about packets |

pub mod classify;
pub mod fragment_cache;
pub mod identification;
pub mod oversize;
pub(super) mod plain;
pub mod policy;
pub(super) mod tunnels;
