//! Exit statuses of commands.

/// Success.
pub const SUCCESS: u8 = 0;

/// A wrong result, or the run failed.
pub const FAILURE: u8 = 1;

/// Wrong usage.
pub const USAGE: u8 = 2;

/// Interrupted: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;
