//! README.md, the pages of docs and their pictures are what the committed data make of them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalebricks-bench"));
    command.arg("pages").args(args).current_dir(directory).output().unwrap()
}

#[test]
fn the_pages_are_what_their_data_make() {
    let output = pages(&root(), &["--check"]);
    let said = String::from_utf8_lossy(&output.stderr);
    print!("{said}"); // commits that could not be looked for
    assert!(output.status.success(), "{said}");
}

/// Copies what pages and data are.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &path);
        } else {
            std::fs::copy(entry.path(), path).unwrap();
        }
    }
}

#[test]
fn a_number_that_was_changed_by_hand_is_found_and_written_anew() {
    let place = tempfile::tempdir().unwrap();
    copy(&root().join("docs"), &place.path().join("docs"));
    std::fs::copy(root().join("README.md"), place.path().join("README.md")).unwrap();
    let page = place.path().join("docs/outages.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let begin = text.find("<!-- begin outages -->").unwrap();
    let digit = begin + text[begin..].find(|letter: char| letter.is_ascii_digit()).unwrap();
    let other = if text[digit..].starts_with('1') { "2" } else { "1" };
    let mut changed = text.clone();
    changed.replace_range(digit..=digit, other);
    std::fs::write(&page, changed).unwrap();
    let output = pages(place.path(), &["--check"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("docs/outages.md: it differs from its data"), "{said}");
    assert!(said.contains("without the full git history"), "a copy has no commits: {said}");
    assert!(pages(place.path(), &[]).status.success());
    assert_eq!(std::fs::read_to_string(&page).unwrap(), text);
}

#[test]
fn haste_is_refused_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_scalebricks-bench"))
        .args(["setsep-space", "--quick", "--page", "tables"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--quick"), "{output:?}");
    assert!(!place.path().join("docs").exists());
}
