//! Measured results: where they come from, how they are kept, and the pages and plots that show them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`provenance`] | which commit measured, by which command, and whether a page may show it |
//! | [`stats`] | medians with minimum and maximum |
//! | [`stored`] | fields of stored results, read back from JSON |
//! | [`exhibit`] | tables, charts and sentences that pages show |
//! | [`picture`] | the common look of all plots |
//! | [`pages`] | the pages, written from the data in `docs/data` |

#![forbid(unsafe_code)]

pub mod exhibit;
pub mod pages;
pub mod picture;
pub mod provenance;
pub mod stats;
pub mod stored;
