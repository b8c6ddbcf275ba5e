//! Integration tests, one module per part.

#![forbid(unsafe_code)]

mod reassembly;
