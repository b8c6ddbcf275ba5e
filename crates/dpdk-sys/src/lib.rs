//! Raw bindings to DPDK 22.11 and later, made at build time from the installed headers, with DPDK's own comments. `sb_*` are
//! the shim's: names for inline functions and macros.
//!
//! Everything here is as unsafe as in C. `scalebricks-dpdk` is the safe layer.
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
