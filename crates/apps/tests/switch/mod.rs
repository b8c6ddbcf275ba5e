//! The flat-name switch compared with a slow reference, during changes, and with hostile frames.

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
