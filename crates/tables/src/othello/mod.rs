//! Othello.

mod arena;
mod batch;
mod builder;
mod changes;
mod colour;
mod control;
mod digest;
mod face;
mod graph;
mod image;
mod kernels;
mod ops;
mod params;
mod payload;
mod place;
mod query;
mod reader;
mod reshape;
mod shapes;
mod store;
mod updates;

pub use builder::{BuildError, OthelloBuilder};
pub use control::{OthelloControl, Stats};
pub use ops::{Full, Op, UpdateError};
pub use params::{MAX_RANGES, PARAMS_BYTES, Params, ParamsError, Sizing};
pub use query::{Othello, TableStats};
pub use reader::{OthelloPin, OthelloReader};
pub use reshape::ReshapeError;
