//! Reordering.
