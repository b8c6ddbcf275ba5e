//! Integration tests, one module per part.

#![forbid(unsafe_code)]

mod fragments;
mod hostile;
mod reassembly;
mod tcp;
mod tracker;
