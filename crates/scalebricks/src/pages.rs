//! Pages of `README.md` and `docs` from all kinds of data: what benchmarks, the demonstration, the lab and outages left.

use crate::lab::{self, outages::results::Results};
use crate::report::result::Report;
use scalebricks_bench::pages::{self, Kind, MEASURED, PagesError};
use scalebricks_bench::provenance::{self, LEAST_RUNS};
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, output};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// The demonstration's kind.
pub const DEMO: &str = "demo";

/// That of the lab's checks.
pub const LAB: &str = "lab";

/// That of outages.
pub const OUTAGES: &str = "outages";

/// Kinds beside those of benchmarks.
const OTHERS: [Kind; 3] = [
    Kind { name: DEMO, command: "make demo-page", read: |json| parse::<Report>(json)?.evidence() },
    Kind {
        name: LAB,
        command: "make lab-page",
        read: |json| Ok(parse::<lab::report::Report>(json)?.evidence()),
    },
    Kind { name: OUTAGES, command: "make outages", read: |json| Ok(parse::<Results>(json)?.evidence()) },
];

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn kinds() -> Vec<Kind> {
    MEASURED.into_iter().chain(OTHERS).collect()
}

/// Writes all pages anew.
///
/// # Errors
/// [`PagesError`].
pub fn write(console: &Console) -> Result<(), PagesError> {
    pages::write(Path::new("."), &kinds(), console)
}

/// Compares all pages with what data make.
///
/// # Errors
/// [`PagesError`].
pub fn check(console: &Console) -> Result<(), PagesError> {
    pages::check(Path::new("."), &kinds(), console)
}

/// Refuses to measure for a page what nobody could measure again.
///
/// # Errors
/// [`PagesError::Refused`].
pub fn ensure_reproducible() -> Result<(), PagesError> {
    provenance::ensure_reproducible(LEAST_RUNS, false)
}

/// Keeps data of a kind, and writes all pages anew.
///
/// # Errors
/// [`PagesError`].
pub fn keep(kind: &str, data: &impl Serialize, console: &Console) -> Result<(), PagesError> {
    console.keep(&pages::data_file(kind, &Processor::here()), &output::json(data)?)?;
    write(console)
}
