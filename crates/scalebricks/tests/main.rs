//! The program as its users run it, and clusters in one process.

#![forbid(unsafe_code)]

mod admin;
mod control_plane;
mod demo;
mod deploy;
mod engine;
mod flows;
mod graph;
mod harness;
mod large_images;
mod log;
mod log_filter;
mod moving_counters;
mod nats_servers;
mod node;
mod node_check;
mod node_worker;
mod operators;
mod replaceable;
mod router;
mod simulation;
mod switch;
mod unfit_node;
mod worker;
mod worker_fitness;
