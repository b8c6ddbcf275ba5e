//! Tests each way in which pages and data can disagree, on a small checkout.

use super::*;
use crate::report::Report;
use crate::report::tests::sample;
use scalebricks_console::{Console, output};
use scalebricks_report::pages::data_file;
use scalebricks_report::pages::place::places;
use scalebricks_report::pages::site::Site;
use scalebricks_report::provenance;
use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "# P\n<!-- begin run -->\n<!-- end run -->\n<!-- begin choice -->\n<!-- end choice -->\n\
    <!-- begin choice-said -->\n<!-- end choice-said -->\n<!-- begin lookups.svg -->\n<!-- end lookups.svg -->\ntail\n";

/// Makes a checkout with one commit and returns its name.
fn checkout(root: &Path) -> String {
    fs::create_dir_all(root.join("docs/data/choosing")).unwrap();
    fs::write(root.join("README.md"), "<!-- begin control/run -->\n<!-- end control/run -->\n").unwrap();
    fs::write(root.join("source.rs"), "").unwrap();
    fs::write(root.join("docs/choosing.md"), PAGE).unwrap();
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "x"]] {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"];
        let done = Command::new("git").arg("-C").arg(root).args(identity).args(words).status();
        assert!(done.unwrap().success(), "{words:?}");
    }
    provenance::commit_of(root)
}

/// A checkout with data and correct pages.
struct TestSite {
    place: tempfile::TempDir,
    report: Report,
}

impl TestSite {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let report = sample(&checkout(place.path()));
        let site = Self { place, report };
        site.keep(&site.report);
        assert_eq!(site.site().write(&Console::new(true)).unwrap(), Vec::<String>::new());
        assert_eq!(site.problems(), Vec::<String>::new());
        site
    }

    fn root(&self) -> &Path {
        self.place.path()
    }

    fn keep(&self, report: &Report) {
        let file = data_file("choosing", &report.processor());
        fs::write(self.root().join(file), output::json(report).unwrap()).unwrap();
    }

    fn site(&self) -> Site {
        Site::of(self.root(), &MEASURED).unwrap()
    }

    fn problems(&self) -> Vec<String> {
        self.site().check().unwrap()
    }

    /// The problem of the pages after one change of the data.
    fn after(&self, change: impl FnOnce(&mut Report)) -> String {
        let mut report = self.report.clone();
        change(&mut report);
        self.keep(&report);
        let problems = self.problems().join("\n");
        assert!(!problems.is_empty());
        problems
    }
}

#[test]
fn pages_are_made_of_data_alone() {
    let site = TestSite::new();
    let page = fs::read_to_string(site.root().join("docs/choosing.md")).unwrap();
    for part in [
        "| commit | not measured | ",
        "**Zen 4**: not measured.\n\n**Zen 5**\n\n| flows | M/s |\n|---|---|\n| 7 | 2.00 |\n",
        "*Zen 5:* It is fast.\n",
        "![Lookups, Zen 5](figures/amd-zen5/lookups.svg)\n",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(
        page.starts_with("# P\n<!-- begin run -->\n\n|")
            && page.ends_with("<!-- end lookups.svg -->\ntail\n")
    );
    let readme = fs::read_to_string(site.root().join("README.md")).unwrap();
    assert!(readme.contains("\nNot measured at a clean commit yet: run `make control-figures`.\n"));
    let csv = fs::read_to_string(site.root().join("docs/figures/amd-zen5/choice.table.csv")).unwrap();
    assert_eq!(csv, "flows,M/s\n7,2.00\n");
}

#[test]
fn processors_stand_in_a_fixed_order() {
    let site = TestSite::new();
    let mut others = [site.report.clone(), site.report.clone()];
    others[0].cpu = "A Maker".to_owned();
    others[1].cpu_family = Some(25);
    others[1].cpu_model = Some(17);
    others[1].exhibits.sheets[0].rows[0][1] = "1.00".to_owned();
    for report in &others {
        site.keep(report);
    }
    site.site().write(&Console::new(true)).unwrap();
    let page = fs::read_to_string(site.root().join("docs/choosing.md")).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in\n{page}"));
    assert!(at("|  | Zen 4 | Zen 5 | A Maker (family 26, model 2) |") < at("**Zen 4**\n"));
    assert!(at("**Zen 4**\n") < at("**Zen 5**\n") && at("**Zen 5**\n") < at("**A Maker"));
    assert!(!page.contains("not measured") && at("| 7 | 1.00 |") < at("| 7 | 2.00 |"));
}

#[test]
fn tables_stand_side_by_side_row_by_row() {
    let site = TestSite::new();
    let mut other = site.report.clone();
    other.cpu_family = Some(25);
    other.cpu_model = Some(17);
    for (report, rows) in [(&site.report, ["7", "8"]), (&other, ["8", "9"])] {
        let mut report = report.clone();
        let sheet = &mut report.exhibits.sheets[0];
        sheet.keys = 1;
        sheet.rows = rows.map(|row| vec![row.to_owned(), format!("{row} M")]).to_vec();
        site.keep(&report);
    }
    site.site().write(&Console::new(true)).unwrap();
    let page = fs::read_to_string(site.root().join("docs/choosing.md")).unwrap();
    let want = "| flows | M/s, Zen 4 | M/s, Zen 5 |\n|---|---|---|\n| 8 | 8 M | 8 M |\n| 9 | 9 M | – |\n| 7 | – | 7 M |\n\n*Zen 4, commit ";
    assert!(page.contains(want), "{page}");
    assert!(page.contains("Repeat with `make choosing`.*\n"), "{page}");
}

#[test]
fn a_page_that_differs_by_a_byte_is_found() {
    let site = TestSite::new();
    let path = site.root().join("docs/choosing.md");
    let page = fs::read_to_string(&path).unwrap();
    fs::write(&path, page.replace("2.00", "2.01")).unwrap();
    assert_eq!(site.problems(), ["docs/choosing.md: it differs from its data: run make pages"]);
}

#[test]
fn data_that_nobody_could_measure_again_are_found() {
    let site = TestSite::new();
    let commit = site.report.commit.clone();
    assert!(site.after(|report| report.commit += "-dirty").contains("which is not a commit"));
    assert!(site.after(|report| report.commit = "unknown".to_owned()).contains("which is not a commit"));
    assert!(
        site.after(|report| report.commit = "0123456789ab".to_owned()).contains("is not an ancestor of HEAD")
    );
    assert!(site.after(|report| report.quick = true).contains("--quick"));
    assert!(site.after(|report| report.runs = 2).contains("2 runs"));
    assert_eq!(site.report.commit, commit);
}

#[test]
fn without_history_a_commit_is_not_looked_for_and_a_note_says_so() {
    let site = TestSite::new();
    assert_eq!(site.site().notes(), Vec::<String>::new());
    fs::remove_dir_all(site.root().join(".git")).unwrap();
    assert_eq!(site.problems(), Vec::<String>::new());
    assert!(site.site().notes()[0].contains("without the full git history"));
}

#[test]
fn pictures_and_tables_without_data_are_found_and_removed() {
    let site = TestSite::new();
    for name in ["old.svg", "old.csv"] {
        let path = site.root().join("docs/figures").join(name);
        fs::write(&path, "").unwrap();
        assert_eq!(site.problems(), [format!("docs/figures/{name}: no data generate it")]);
        site.site().write(&Console::new(true)).unwrap();
        assert!(!path.exists());
    }
    let picture = site.root().join("docs/figures/amd-zen5/lookups.svg");
    fs::write(&picture, "<svg/>").unwrap();
    assert_eq!(site.problems().len(), 1, "a picture that data do not make");
    let readme = site.root().join("README.md");
    fs::write(&readme, "![x](docs/figures/old.svg)\n").unwrap();
    assert!(site.problems().contains(&"README.md: no data generate docs/figures/old.svg".to_owned()));
}

#[test]
fn a_place_without_data_must_say_so() {
    let site = TestSite::new();
    fs::remove_file(site.root().join("docs/data/choosing/amd-zen5.json")).unwrap();
    let problems = site.problems();
    assert!(problems[0].starts_with("docs/choosing.md: it differs from its data"), "{problems:?}");
    site.site().write(&Console::new(true)).unwrap();
    assert_eq!(site.problems(), Vec::<String>::new());
    let page = fs::read_to_string(site.root().join("docs/choosing.md")).unwrap();
    assert_eq!(page.matches("Not measured at a clean commit yet: run `make choosing`").count(), 4);
}

#[test]
fn what_no_page_shows_is_found() {
    let site = TestSite::new();
    let path = site.root().join("docs/choosing.md");
    let page = fs::read_to_string(&path).unwrap();
    fs::write(&path, page.replace(" choice -->", " other -->")).unwrap();
    assert!(site.problems()[0].contains("no page shows choosing/choice"), "{:?}", site.problems());
    fs::write(&path, page.replace(" choice -->", " nothing/choice -->")).unwrap();
    assert!(site.problems()[0].contains("there are no data for the place nothing/choice"));
    fs::write(&path, page.replace("<!-- end choice -->", "")).unwrap();
    assert!(site.problems()[0].contains("the place choice has no end"));
}

#[test]
fn data_in_the_wrong_place_are_found() {
    let site = TestSite::new();
    let data = site.root().join("docs/data");
    let json = output::json(&site.report).unwrap();
    fs::write(data.join("choosing/amd-zen4.json"), &json).unwrap();
    assert!(site.problems()[0].contains("another processor: amd-zen5"));
    fs::remove_file(data.join("choosing/amd-zen4.json")).unwrap();
    fs::create_dir(data.join("nothing")).unwrap();
    fs::write(data.join("nothing/amd-zen5.json"), &json).unwrap();
    assert!(site.problems()[0].contains("no known kind"));
    fs::write(data.join("choosing/amd-zen5.json"), "{").unwrap();
    assert!(site.problems()[0].contains("EOF"));
}

#[test]
fn places_are_lines_of_their_own() {
    let page = "a `<!-- begin x -->` b\n<!-- begin y -->\ntext\n<!-- end y -->\n";
    let found = places(page).unwrap();
    assert_eq!((found.len(), found[0].name.as_str(), &page[found[0].content.clone()]), (1, "y", "text\n"));
}
