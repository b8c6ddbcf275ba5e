//! Results that are kept for the pages of the documentation: those of the demonstration, the lab, and outages.

use crate::demo::report::result::Report;
#[cfg(feature = "testbed")]
use crate::testbed::{self, outages::results::Results};
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, output};
use scalebricks_report::exhibit::Exhibits;
use scalebricks_report::pages::{Evidence, Kind, PagesError, data_file};
use scalebricks_report::provenance::{self, LEAST_RUNS};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The kind of the demonstration.
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

/// What produced results: program, commit and processor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Source {
    /// Version of the program.
    pub version: String,
    /// The commit of the sources.
    pub commit: String,
    /// The processor.
    pub cpu: String,
    /// Its family number.
    #[serde(default)]
    pub cpu_family: Option<u32>,
    /// Its model number.
    #[serde(default)]
    pub cpu_model: Option<u32>,
}

impl Source {
    /// This program on this machine.
    pub fn here() -> Self {
        let Processor { brand: cpu, family: cpu_family, model: cpu_model } = Processor::here();
        let (version, commit) = (env!("CARGO_PKG_VERSION").to_owned(), provenance::commit());
        Self { version, commit, cpu, cpu_family, cpu_model }
    }

    /// Page content without exhibits, from one complete run that times nothing.
    pub fn evidence(self) -> Evidence {
        Evidence {
            processor: Processor { brand: self.cpu, family: self.cpu_family, model: self.cpu_model },
            commit: self.commit,
            runs: None,
            runs_are: "runs",
            is_quick: false,
            exhibits: Exhibits::default(),
            texts: Vec::new(),
            pictures: Vec::new(),
        }
    }
}

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Refuses to measure for a page if the result could not be reproduced.
///
/// # Errors
/// [`PagesError::Refused`].
pub fn ensure_reproducible() -> Result<(), PagesError> {
    provenance::ensure_reproducible(LEAST_RUNS, false)
}

/// Writes data of a kind to `docs/data`. `make pages` then writes the pages that show it.
///
/// # Errors
/// [`PagesError::Output`].
pub fn keep(kind: &str, data: &impl Serialize, console: &Console) -> Result<(), PagesError> {
    console.keep(&data_file(kind, &Processor::here()), &output::json(data)?)?;
    console.note("to update the pages: make pages");
    Ok(())
}
