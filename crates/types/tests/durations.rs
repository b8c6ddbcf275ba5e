//! No test asserts a duration: a machine that is busy would fail it, and one that is idle would pass what is broken.
//! What a test may ask is whether something comes at all: in a loop that gives up after a time.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of all crates.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line is in a loop of its function, by the layout that rustfmt gives.
fn is_in_loop(before: &[&str], line: &str) -> bool {
    let mut depth = indent(line);
    for outer in before.iter().rev().filter(|outer| !outer.trim().is_empty()) {
        if indent(outer) >= depth {
            continue;
        }
        depth = indent(outer);
        let words = outer.trim_start();
        if ["loop ", "while ", "for "].iter().any(|word| words.starts_with(word)) || words.ends_with("loop {")
        {
            return true;
        }
        if words.contains("fn ") {
            return false;
        }
    }
    false
}

/// The names that hold how long something took.
fn times<'a>(text: &'a str) -> impl Iterator<Item = &'a str> {
    let is_time = |line: &&str| line.contains(".elapsed()") && line.ends_with(';');
    let name = |line: &'a str| line.trim_start().strip_prefix("let ")?.split([' ', ':']).next();
    text.lines().filter(is_time).filter_map(name)
}

/// The lines of assertions about how long something took, from 1 on; those in loops are patience.
fn asserted(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let times: Vec<&str> = times(text).collect();
    let asks = |words: &str| {
        let is_compared = words.contains(" < ") || words.contains(" <= ") || words.contains(" > ");
        let is_compared = is_compared || words.contains(" >= ") || words.contains("contains(");
        let names = words.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_time = words.contains("elapsed()") || words.contains("Instant::now()");
        is_compared && (is_time || names.into_iter().any(|name| times.contains(&name)))
    };
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !line.contains("assert!(") {
            continue;
        }
        // To the end of the statement, which may be some lines away.
        let end = lines[at..].iter().position(|line| line.trim_end().ends_with(';')).unwrap_or(0);
        if asks(&lines[at..=at + end].join(" ")) && !is_in_loop(&lines[..at], line) {
            found.push(at + 1);
        }
    }
    found
}

#[test]
fn no_test_asserts_a_duration() -> Result<(), Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files)?;
    assert!(files.len() > 100, "{} files were read", files.len());
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("tests/durations.rs")) {
        let text = fs::read_to_string(file)?;
        wrong.extend(asserted(&text).into_iter().map(|line| format!("{}:{line}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn patience_is_told_from_a_claim_of_speed() {
    let claim = "fn a() {\n    act();\n    assert!(began.elapsed() < SECOND);\n}\n";
    assert_eq!(asserted(claim), [3]);
    let named =
        "fn a() {\n    let took = began.elapsed();\n    assert!(\n        took < SECOND,\n    );\n}\n";
    assert_eq!(asserted(named), [3]);
    let range = "fn a() {\n    assert!((a..b).contains(&began.elapsed()));\n}\n";
    assert_eq!(asserted(range), [2]);
    let after_loop =
        "fn a() {\n    while !is_so() {\n        wait();\n    }\n    assert!(Instant::now() < until);\n}\n";
    assert_eq!(asserted(after_loop), [5]);
    let patience = "fn a() {\n    loop {\n        if is_so() {\n            return;\n        }\n\
                    \x20       assert!(began.elapsed() < MINUTE);\n    }\n}\n";
    assert_eq!(asserted(patience), [0; 0]);
    assert_eq!(asserted("fn a() {\n    assert!(count < 3);\n}\n"), [0; 0]);
}
