//! What is written for particular processors: fast forms of what is defined elsewhere, for each level of
//! [`Isa`](crate::isa::Isa). Each equals its portable twin bit for bit.

pub(super) mod search;
pub(super) mod stream;
