//! ESP (RFC 4303) in tunnel mode with static keys.
//!
//! | module | contents |
//! |---|---|
//! | [`sa`] | security associations: addresses, keys, selectors, lifetimes |
//! | [`mod@file`] | the file they are read from |
//! | [`suite`] | the algorithms: AES-128-GCM, AES-128-CBC with HMAC-SHA1-96 |
//! | [`replay`] | the anti-replay window |
//! | [`outbound`], [`inbound`] | one direction of an association: sequence numbers, counters, packets |
//! | [`inner`] | what ESP reads of inner packets |
//!
//! Algorithms take several packets at once, which is faster with CBC; elements give them a burst.
//!
//! Keys are overwritten when they are dropped, except the schedule that `ring` keeps for GCM, and copies that the TOML
//! parser makes while it reads the file.

mod cbc_sha1;
pub mod file;
pub(crate) mod frames;
mod hmac_sha1;
pub mod inbound;
pub mod inner;
pub(crate) mod load;
pub mod outbound;
pub(crate) mod receivers;
pub mod replay;
pub mod sa;
pub(crate) mod senders;
pub mod suite;

#[cfg(test)]
mod tests;
