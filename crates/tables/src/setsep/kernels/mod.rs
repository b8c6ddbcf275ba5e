//! The loops that must be fast, each in a portable form that defines it and in faster ones that equal it bit for bit.

pub(super) mod lookup;
