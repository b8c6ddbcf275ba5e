//! Fast forms of what is defined elsewhere, for each level of [`Isa`](crate::isa::Isa).

pub(super) mod search;
