//! Pages, pictures and tables of `README.md` and `docs`, written from committed data and nothing else.
//!
//! `docs/data/KIND/PROCESSOR.json` is what a run of a kind found on a processor. A page shows it at places, each all between
//! `<!-- begin KIND/NAME -->` and `<!-- end KIND/NAME -->`; without `KIND/` it is the kind that is called as the page is.
//! The name is that of a table, sentence or text, or the file name of a picture.
//!
//! | module | what it holds |
//! |---|---|
//! | [`place`] | the places of a page, and what each shows of several processors |
//! | [`site`] | all pages from all data, written or compared with what is there |

pub mod place;
pub mod site;
#[cfg(test)]
pub(crate) mod tests;

use crate::figures::exhibit::Exhibits;
use crate::figures::tables;
use crate::provenance::{self, LEAST_RUNS};
use crate::report::Report;
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, OutputError};
use site::Site;
use std::io;
use std::path::{Path, PathBuf};

/// Processors that pages tell of even if nothing was measured on them: name and file name.
const EXPECTED: [(&str, &str); 2] = [("Zen 4", "amd-zen4"), ("Zen 5", "amd-zen5")];

/// A kind of data.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its directory in `docs/data`.
    pub name: &'static str,
    /// What measures it.
    pub command: &'static str,
    /// Reads a file of it; tells what is wrong with it.
    pub read: fn(&str) -> Result<Evidence, String>,
}

/// The kinds that benchmarks measure.
pub const MEASURED: [Kind; 6] = [
    Kind { name: "tables", command: "make tables", read: tables::evidence },
    Kind { name: "choosing", command: "make choosing", read: Report::evidence },
    Kind { name: "figures", command: "make figures", read: Report::evidence },
    Kind { name: "concise-figures", command: "make figures-concise", read: Report::evidence },
    Kind { name: "gateway-figures", command: "make figures-gateway", read: Report::evidence },
    Kind { name: "control", command: "make control-figures", read: tables::evidence },
];

/// A picture.
#[derive(Debug, Clone)]
pub struct Picture {
    /// Its file name.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// The document.
    pub svg: String,
}

/// Lines as a terminal shows them.
#[derive(Debug, Clone)]
pub struct Text {
    /// Name of its place in a page.
    pub name: String,
    /// The lines.
    pub lines: String,
}

/// Why pages are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// What is measured in this way is not for a page.
    #[error("{0}")]
    Refused(String),
    /// Pages, and the data that they show, do not agree.
    #[error("{}", .0.join("\n"))]
    Problems(Vec<String>),
    /// The pages or the program.
    #[error("cannot read the pages: {0}; run it in the root of a checkout")]
    Read(#[source] io::Error),
    /// They could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Writes all pages below `root` anew, from data alone.
///
/// # Errors
/// [`PagesError`]; nothing is written if data are wrong.
pub fn write(root: &Path, kinds: &[Kind], console: &Console) -> Result<(), PagesError> {
    let site = Site::of(root, kinds).map_err(PagesError::Read)?;
    into_result(site.write(console)?)
}

/// Compares all pages below `root` with what the data make, and writes nothing.
///
/// # Errors
/// [`PagesError`] with everything that is wrong.
pub fn check(root: &Path, kinds: &[Kind], console: &Console) -> Result<(), PagesError> {
    let site = Site::of(root, kinds).map_err(PagesError::Read)?;
    site.notes().iter().for_each(|note| console.note(note));
    into_result(site.check().map_err(PagesError::Read)?)
}

fn into_result(problems: Vec<String>) -> Result<(), PagesError> {
    if problems.is_empty() { Ok(()) } else { Err(PagesError::Problems(problems)) }
}

/// What a file of data shows.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The processor that it was measured on.
    pub processor: Processor,
    /// The commit that measured.
    pub commit: String,
    /// Runs of each measurement; none of what is counted, not timed.
    pub runs: Option<usize>,
    /// What these are, as pages call them: `runs`, or parts of one that are timed apart.
    pub runs_are: &'static str,
    /// Whether it was measured in haste.
    pub is_quick: bool,
    /// Tables, charts and sentences.
    pub exhibits: Exhibits,
    /// Texts.
    pub texts: Vec<Text>,
    /// Pictures.
    pub pictures: Vec<Picture>,
}

impl Evidence {
    /// Why no page may show it.
    fn problem(&self) -> Option<String> {
        if !provenance::is_clean(&self.commit) {
            return Some(format!("it was measured by {}, which is no commit", self.commit));
        }
        if self.is_quick {
            return Some("it was measured with --quick".to_owned());
        }
        let runs = self.runs.filter(|&runs| runs < LEAST_RUNS)?;
        Some(format!("it has {runs} runs of each measurement, and a page shows {LEAST_RUNS} and more"))
    }

    /// The names of all that it shows.
    fn names(&self) -> impl Iterator<Item = &str> {
        let sheets = self.exhibits.sheets.iter().map(|sheet| sheet.name.as_str());
        let said = self.exhibits.conclusions.iter().map(|said| said.name.as_str());
        let texts = self.texts.iter().map(|text| text.name.as_str());
        let pictures = self.pictures.iter().map(|picture| picture.file.as_str());
        sheets.chain(said).chain(texts).chain(pictures)
    }

    /// What it stands behind: processors of the list first.
    fn order(&self) -> (usize, String) {
        let slug = self.processor.slug();
        (EXPECTED.iter().position(|(_, known)| *known == slug).unwrap_or(EXPECTED.len()), slug)
    }
}

/// Where the data of a kind measured on a processor are, from the root of the checkout.
pub fn data_file(kind: &str, processor: &Processor) -> PathBuf {
    ["docs", "data", kind, &format!("{}.json", processor.slug())].iter().collect()
}
