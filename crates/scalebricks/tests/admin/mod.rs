//! The admin interface end to end: a node that forwards in memory, the server over real sockets, the client, and the
//! program itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

mod capture;
mod cli;
mod dashboard;
mod flows;
mod golden;
mod graph;
mod hostile;
mod pages;
mod pinning;
mod running;
mod tls;
mod trace;
