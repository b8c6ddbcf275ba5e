//! The flat-name switch against a slow reference, beside changes, and under hostile frames.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod answers;
mod books;
mod frames;
mod guards;
mod hostile;
mod kinds;
mod reference;
mod rig;
mod text;
mod updates;
