//! What a command's exit status says.

/// All went well.
pub const SUCCESS: u8 = 0;

/// Something came out wrong, or the run failed.
pub const FAILURE: u8 = 1;

/// It was asked for what cannot be.
pub const USAGE: u8 = 2;

/// Interrupted: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;
