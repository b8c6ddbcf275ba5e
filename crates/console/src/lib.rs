//! What every command speaks with: results and progress, numbers as people write them, Ctrl-C, files that are there
//! whole or not at all, pictures of one look, and what is known of the machine.

#![forbid(unsafe_code)]

pub mod atomic_file;
pub mod interrupt;
pub mod machine;
pub mod memory;
pub mod output;
pub mod quantity;
pub mod status;

pub use interrupt::{Interrupt, Interrupted};
pub use output::{Busy, Console, OutputError, Progress};
