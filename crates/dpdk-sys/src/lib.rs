//! Bindings to DPDK 22.11 and later, generated at build time from the installed headers. Functions named `sb_*` are from the
//! shim, for inline functions and macros.
//!
//! `scalebricks-dpdk` is the safe layer on top.
#![cfg(feature = "dpdk")]
#![allow(
    missing_docs,
    unsafe_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_qualifications,
    unnecessary_transmutes,
    rustdoc::all,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
