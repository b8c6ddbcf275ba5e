//! Results kept for the pages of the documentation: the demonstration's, the lab's, and those of outages.

use crate::demo::report::result::Report;
#[cfg(feature = "testbed")]
use crate::testbed::{self, outages::results::Results};
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, output};
use scalebricks_report::pages::{Kind, PagesError, data_file};
use scalebricks_report::provenance::{self, LEAST_RUNS};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The demonstration's kind.
pub const DEMO: &str = "demo";

/// The kind of the lab's checks.
pub const LAB: &str = "lab";

/// The kind of outages.
pub const OUTAGES: &str = "outages";

/// The kinds of data that this crate measures.
pub const MEASURED: &[Kind] = &[
    Kind { name: DEMO, command: "make demo-page", read: |json| parse::<Report>(json)?.evidence() },
    #[cfg(feature = "testbed")]
    Kind {
        name: LAB,
        command: "make lab-page",
        read: |json| Ok(parse::<testbed::report::Report>(json)?.evidence()),
    },
    #[cfg(feature = "testbed")]
    Kind { name: OUTAGES, command: "make outages", read: |json| Ok(parse::<Results>(json)?.evidence()) },
];

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Refuses to measure for a page what nobody could measure again.
///
/// # Errors
/// [`PagesError::Refused`].
pub fn ensure_reproducible() -> Result<(), PagesError> {
    provenance::ensure_reproducible(LEAST_RUNS, false)
}

/// Keeps data of a kind in `docs/data`. `make pages` writes the pages that show them.
///
/// # Errors
/// [`PagesError::Output`].
pub fn keep(kind: &str, data: &impl Serialize, console: &Console) -> Result<(), PagesError> {
    console.keep(&data_file(kind, &Processor::here()), &output::json(data)?)?;
    console.note("the pages show it after: make pages");
    Ok(())
}
