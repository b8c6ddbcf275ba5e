//! The router: its sources of routes.

pub mod feed;
