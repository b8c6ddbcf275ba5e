//! All pages from all data, written or compared with the files.

use super::place::{content, places};
use super::{Evidence, Kind};
use crate::provenance;
use scalebricks_console::{Console, OutputError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directory of the data.
const DATA: &str = "docs/data";

/// Directory of pictures and tables.
const FIGURES: &str = "docs/figures";

/// The generated pages and pictures, and the problems found.
#[derive(Debug, Default)]
pub struct Site {
    root: PathBuf,
    /// Required contents of files, by path from the root.
    files: BTreeMap<PathBuf, String>,
    problems: Vec<String>,
    notes: Vec<String>,
}

/// A data file.
struct DataFile<'a> {
    file: PathBuf,
    kind: &'a Kind,
    evidence: Evidence,
}

impl Site {
    /// Reads the data below `root` and generates everything from them.
    ///
    /// # Errors
    /// The error of a directory or page that cannot be read.
    pub fn of(root: &Path, kinds: &[Kind]) -> io::Result<Self> {
        let mut site = Self { root: root.to_owned(), ..Self::default() };
        let data = site.read(kinds)?;
        site.draw(&data);
        let mut shown = BTreeSet::new();
        for page in site.pages()? {
            let text = fs::read_to_string(root.join(&page))?;
            match fill(&page, &text, kinds, &data, &mut shown) {
                Ok(filled) => {
                    site.links(&page, &filled);
                    site.files.insert(page, filled);
                }
                Err(problem) => site.problems.push(format!("{}: {problem}", page.display())),
            }
        }
        for DataFile { file, kind, evidence } in &data {
            for name in evidence.names().filter(|name| !shown.contains(&(kind.name, (*name).to_owned()))) {
                let name = format!("{}/{name}", kind.name);
                site.problems.push(format!(
                    "{}: no page shows {name}: it needs lines <!-- begin {name} --> and <!-- end {name} -->",
                    file.display()
                ));
            }
        }
        Ok(site)
    }

    /// The problems of the data, and all files that differ from what the data generate.
    ///
    /// # Errors
    /// The error of a directory that cannot be read.
    pub fn check(&self) -> io::Result<Vec<String>> {
        let mut problems = self.problems.clone();
        for (file, wanted) in &self.files {
            let is_so = fs::read_to_string(self.root.join(file)).is_ok_and(|there| there == *wanted);
            if !is_so {
                problems.push(format!("{}: it differs from its data: run make pages", file.display()));
            }
        }
        let orphans = self.orphans()?;
        problems.extend(orphans.iter().map(|file| format!("{}: no data generate it", file.display())));
        Ok(problems)
    }

    /// Writes the files that differ, and removes pictures and tables without data. Writes nothing if the data
    /// have problems.
    ///
    /// # Errors
    /// The [`OutputError`] of the first file that cannot be written.
    pub fn write(&self, console: &Console) -> Result<Vec<String>, OutputError> {
        if self.problems.is_empty() {
            for (file, wanted) in &self.files {
                let path = self.root.join(file);
                if !fs::read_to_string(&path).is_ok_and(|there| there == *wanted) {
                    console.keep(&path, wanted)?;
                }
            }
            for file in self.orphans()? {
                fs::remove_file(self.root.join(&file))?;
                console.note(&format!("removed {}", file.display()));
            }
        }
        Ok(self.problems.clone())
    }

    /// Checks that were not possible.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads all data, sorted by processor.
    fn read<'a>(&mut self, kinds: &'a [Kind]) -> io::Result<Vec<DataFile<'a>>> {
        let mut data = Vec::new();
        for file in files_below(&self.root, Path::new(DATA))? {
            match self.data_file(kinds, &file) {
                Ok((kind, evidence)) => data.push(DataFile { file, kind, evidence }),
                Err(problem) => self.problems.push(format!("{}: {problem}", file.display())),
            }
        }
        data.sort_by_cached_key(|data_file| data_file.evidence.order());
        Ok(data)
    }

    fn data_file<'a>(&mut self, kinds: &'a [Kind], file: &Path) -> Result<(&'a Kind, Evidence), String> {
        let directory = file.parent().and_then(Path::file_name).unwrap_or_default();
        let kind = kinds.iter().find(|kind| *kind.name == *directory);
        let kind = kind.ok_or("it is of no known kind: docs/data/KIND/PROCESSOR.json")?;
        let json = fs::read_to_string(self.root.join(file)).map_err(|error| error.to_string())?;
        let evidence = (kind.read)(&json)?;
        let slug = evidence.processor.slug();
        if file.file_name().is_none_or(|name| *name != *format!("{slug}.json")) {
            return Err(format!("it was measured on another processor: {slug}"));
        }
        if let Some(problem) = evidence.problem() {
            return Err(format!("{problem}: measure it again with {}", kind.command));
        }
        match provenance::is_ancestor(&self.root, &evidence.commit) {
            Some(true) => {}
            Some(false) => return Err(format!("commit {} is not an ancestor of HEAD", evidence.commit)),
            None => self.notes.push(format!(
                "{}: without the full git history, commit {} cannot be checked",
                file.display(),
                evidence.commit
            )),
        }
        Ok((kind, evidence))
    }

    /// Adds pictures and tables, each processor's in its own directory.
    fn draw(&mut self, data: &[DataFile<'_>]) {
        for DataFile { file, evidence, .. } in data {
            let pictures =
                evidence.pictures.iter().map(|picture| (picture.file.clone(), picture.svg.clone()));
            for (name, content) in pictures.chain(evidence.exhibits.csv()) {
                if name == "run.table.csv" {
                    continue; // every kind has one, and it is in the data
                }
                let path = Path::new(FIGURES).join(evidence.processor.slug()).join(&name);
                if self.files.insert(path, content).is_some() {
                    self.problems.push(format!("{}: other data have {name}, too", file.display()));
                }
            }
        }
    }

    /// The pages: README.md and those of docs.
    fn pages(&self) -> io::Result<Vec<PathBuf>> {
        let mut pages = vec![PathBuf::from("README.md")];
        for entry in fs::read_dir(self.root.join("docs"))? {
            let name = PathBuf::from(entry?.file_name());
            if name.extension().is_some_and(|extension| extension == "md") {
                pages.push(Path::new("docs").join(name));
            }
        }
        pages.sort();
        Ok(pages)
    }

    /// Finds pictures and tables that a page links to and no data generate.
    fn links(&mut self, page: &Path, text: &str) {
        let directory = page.parent().unwrap_or_else(|| Path::new(""));
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.map(|target| directory.join(target)) {
            if target.starts_with(FIGURES)
                && target.extension().is_some()
                && !self.files.contains_key(&target)
            {
                self.problems.push(format!("{}: no data generate {}", page.display(), target.display()));
            }
        }
    }

    /// Pictures and tables that no data generate.
    fn orphans(&self) -> io::Result<Vec<PathBuf>> {
        let mut there = files_below(&self.root, Path::new(FIGURES))?;
        there.retain(|file| !self.files.contains_key(file));
        Ok(there)
    }
}

/// A page with all places filled. What it shows is added to `shown`.
fn fill<'a>(
    page: &Path,
    text: &str,
    kinds: &'a [Kind],
    data: &[DataFile<'_>],
    shown: &mut BTreeSet<(&'a str, String)>,
) -> Result<String, String> {
    let docs = if page.starts_with("docs") { "" } else { "docs/" };
    let own = page.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut filled = text.to_owned();
    // From last to first, so that earlier ranges stay valid.
    for place in places(text)?.into_iter().rev() {
        let (kind, name) = place.name.split_once('/').unwrap_or((own, &place.name));
        let known = kinds.iter().find(|known| known.name == kind);
        let kind = known.ok_or_else(|| format!("there are no data for the place {}", place.name))?;
        let of_kind: Vec<&Evidence> = data
            .iter()
            .filter(|data_file| data_file.kind.name == kind.name)
            .map(|data_file| &data_file.evidence)
            .collect();
        filled.replace_range(place.content, &content(kind, name, &of_kind, docs));
        shown.insert((kind.name, name.to_owned()));
    }
    Ok(filled)
}

/// All files below a directory, by path from the root, sorted; none if it does not exist.
fn files_below(root: &Path, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if root.join(directory).is_dir() {
        for entry in fs::read_dir(root.join(directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                files.extend(files_below(root, &path)?);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
