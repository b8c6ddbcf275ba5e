//! Integration tests, one module per part.

#![forbid(unsafe_code)]

mod fragments;
mod reassembly;
mod tcp;
mod tracker;
