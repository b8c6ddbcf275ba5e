//! Integration tests, one module per part.

#![forbid(unsafe_code)]

mod fragments;
mod hostile;
mod nat;
mod reassembly;
mod tcp;
mod tracker;
