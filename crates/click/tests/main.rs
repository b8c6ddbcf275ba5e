//! The language, its checks and its properties.

#![forbid(unsafe_code)]

mod check;
mod language;
mod properties;
