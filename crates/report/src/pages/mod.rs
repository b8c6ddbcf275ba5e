//! Pages, pictures and tables of `README.md` and `docs`, generated from committed data only.
//!
//! `docs/data/KIND/PROCESSOR.json` holds the results of a run of one kind on one processor. A page shows them
//! at places: the text between `<!-- begin KIND/NAME -->` and `<!-- end KIND/NAME -->`. Without `KIND/`, the
//! kind has the page's name. NAME is the name of a table, sentence or text, or the file name of a picture.
//!
//! | module | contents |
//! |---|---|
//! | [`place`] | the places of a page, and what each shows of several processors |
//! | [`site`] | all pages from all data, written or compared with the files |

pub mod place;
pub mod site;

use crate::exhibit::Exhibits;
use crate::provenance::{self, LEAST_RUNS};
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, OutputError};
use site::Site;
use std::io;
use std::path::{Path, PathBuf};

/// Processors that pages mention even without measurements: name and file name.
const EXPECTED: [(&str, &str); 2] = [("Zen 4", "amd-zen4"), ("Zen 5", "amd-zen5")];

/// A kind of data.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its directory in `docs/data`.
    pub name: &'static str,
    /// The command that measures it.
    pub command: &'static str,
    /// Reads a data file, or says what is wrong with it.
    pub read: fn(&str) -> Result<Evidence, String>,
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Picture {
    /// Its file name.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// The SVG document.
    pub svg: String,
}

/// Terminal output.
#[derive(Debug, Clone)]
pub struct Text {
    /// The name of its place in a page.
    pub name: String,
    /// The lines.
    pub lines: String,
}

/// Errors of pages.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// The measurement may not be stored for a page.
    #[error("{0}")]
    Refused(String),
    /// The pages and their data disagree.
    #[error("{}", .0.join("\n"))]
    Problems(Vec<String>),
    /// The pages or the program cannot be read.
    #[error("cannot read the pages: {0}; run it in the root of a checkout")]
    Read(#[source] io::Error),
    /// The pages cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Regenerates all pages below `root` from the data.
///
/// # Errors
/// [`PagesError`]; nothing is written if the data are wrong.
pub fn write(root: &Path, kinds: &[Kind], console: &Console) -> Result<(), PagesError> {
    let site = Site::of(root, kinds).map_err(PagesError::Read)?;
    into_result(site.write(console)?)
}

/// Compares all pages below `root` with the data and writes nothing.
///
/// # Errors
/// [`PagesError`] with all differences.
pub fn check(root: &Path, kinds: &[Kind], console: &Console) -> Result<(), PagesError> {
    let site = Site::of(root, kinds).map_err(PagesError::Read)?;
    site.notes().iter().for_each(|note| console.note(note));
    into_result(site.check().map_err(PagesError::Read)?)
}

fn into_result(problems: Vec<String>) -> Result<(), PagesError> {
    if problems.is_empty() { Ok(()) } else { Err(PagesError::Problems(problems)) }
}

/// The contents of a data file.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The processor that it was measured on.
    pub processor: Processor,
    /// The commit that measured it.
    pub commit: String,
    /// Runs per measurement; `None` if it is counted and not timed.
    pub runs: Option<usize>,
    /// What pages call these runs: `runs`, or parts of one run that are timed separately.
    pub runs_are: &'static str,
    /// Whether it was a quick run.
    pub is_quick: bool,
    /// Tables, charts and sentences.
    pub exhibits: Exhibits,
    /// Terminal output.
    pub texts: Vec<Text>,
    /// Pictures.
    pub pictures: Vec<Picture>,
}

impl Evidence {
    /// Why no page may show it.
    fn problem(&self) -> Option<String> {
        if !provenance::is_clean(&self.commit) {
            return Some(format!("it was measured at {}, which is not a commit", self.commit));
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

    /// Its position among processors: expected ones first.
    fn order(&self) -> (usize, String) {
        let slug = self.processor.slug();
        (EXPECTED.iter().position(|(_, known)| *known == slug).unwrap_or(EXPECTED.len()), slug)
    }
}

/// The path of the data of one kind and processor, from the root of the checkout.
pub fn data_file(kind: &str, processor: &Processor) -> PathBuf {
    ["docs", "data", kind, &format!("{}.json", processor.slug())].iter().collect()
}
