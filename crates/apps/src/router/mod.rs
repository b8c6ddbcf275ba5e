//! The router.
//!
//! | module | contents |
//! |---|---|
//! | [`feed`] | sources of routes: BGP tables from files |
//! | [`server`] | one server: configurations for forwarding and IP routing |

pub mod feed;
pub mod server;
