//! The router.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | one server: configurations for forwarding and IP routing |

pub mod server;
