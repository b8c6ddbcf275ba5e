//! What all commands share: output and progress, quantities, Ctrl-C, atomic files, the style of pictures, and
//! facts about the machine.

#![forbid(unsafe_code)]

pub mod atomic_file;
pub mod interrupt;
pub mod machine;
pub mod memory;
pub mod output;
pub mod quantity;
pub mod results;
pub mod status;

pub use interrupt::{Interrupt, Interrupted};
pub use output::{Busy, Console, OutputError, Progress};
pub use results::ResultArgs;
