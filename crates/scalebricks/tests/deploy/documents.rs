//! Every configuration in the documentation and in `examples` passes the check of a node, a switch or a router.
//!
//! A block of TOML is a complete configuration, or a part: then its fence is `toml fragment` or `toml fragment of a switch`, and
//! it is merged into the complete one of the same page, or into the example in `examples`. A `toml fragment of a NAT` takes
//! the place of the tunnels of the example. The files that a configuration names are created.

use super::files::{example, read, repository, run, secret};
use super::overlay::overlay;
use std::fs;
use std::path::{Path, PathBuf};

/// A block of text between fences.
struct Block {
    document: String,
    line: usize,
    /// The text after the opening fence.
    kind: String,
    text: String,
}

fn markdown_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "shared" {
            markdown_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn blocks(document: &Path) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in fs::read_to_string(document).unwrap().lines().enumerate() {
        match (line.trim().strip_prefix("```"), open.take()) {
            (Some(kind), None) => {
                let document = document.display().to_string();
                open =
                    Some(Block { document, line: at + 1, kind: kind.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a fence is not closed", document.display());
    blocks
}

/// Creates the files that a configuration names, all of which must be in its folder.
fn make_files(folder: &Path, value: &toml::Value, key: &str) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                make_files(folder, value, key);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| make_files(folder, value, key)),
        toml::Value::String(name) => {
            let path = folder.join(name);
            let certificate = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            let extension = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
            match (key, extension) {
                ("file", "csv") => {}
                ("file" | "token", _) => secret(&path),
                ("key", "key") if name == "cluster.key" => secret(&path),
                ("certificate", _) => {
                    let made = certificate();
                    fs::write(&path, made.cert.pem()).unwrap();
                    fs::write(path.with_extension("key"), made.signing_key.serialize_pem()).unwrap();
                }
                ("authorities", _) => fs::write(&path, certificate().cert.pem()).unwrap(),
                _ => {}
            }
        }
        _ => {}
    }
}

#[test]
fn every_configuration_in_the_documentation_passes_its_check() {
    let mut documents = Vec::new();
    markdown_files(&repository(""), &mut documents);
    let all: Vec<Block> = documents.iter().flat_map(|document| blocks(document)).collect();
    // The files that the configurations read: the flows and names that the documentation prints.
    let printed = |kind: &str, begin: &str| {
        let block = all.iter().find(|block| block.kind == kind && block.text.starts_with(begin));
        block.unwrap_or_else(|| panic!("no {kind} that begins with {begin}")).text.clone()
    };
    let (flows, names) = (printed("csv", "protocol,remote"), printed("text", "# Where machines are."));
    let (mut nodes, mut switches, mut fragments) = (0, 0, 0);
    let mut failed = Vec::new();
    for block in all.iter().filter(|block| block.kind.split(' ').next() == Some("toml")) {
        let whole = match block.kind.as_str() {
            "toml" => block.text.clone(),
            "toml fragment" => {
                let same_page = |other: &&Block| {
                    other.kind == "toml" && other.document == block.document && other.text.contains("[node]")
                };
                let whole = all.iter().find(same_page).map(|whole| whole.text.clone());
                overlay(&whole.unwrap_or_else(|| read("examples/node/node1.toml")), &block.text)
            }
            "toml fragment of a switch" => overlay(&read("examples/switch/switch.toml"), &block.text),
            // An appliance has its own keys.
            "toml fragment of a NAT" => {
                overlay(&read("examples/node/node1.toml").replace("key = \"ue\"\n", ""), &block.text)
            }
            other => panic!("{}:{}: what is '{other}'?", block.document, block.line),
        };
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        example("switch", folder);
        if block.kind == "toml" {
            fs::write(folder.join("flows.csv"), &flows).unwrap();
            fs::write(folder.join("names.csv"), names.replace("rack9", "rack1")).unwrap();
        }
        if let Err(error) = check(folder, &whole) {
            failed.push(format!("{}:{}: {error}", block.document, block.line));
        }
        match (block.kind.as_str(), whole.contains("[switch]")) {
            ("toml", false) => nodes += 1,
            ("toml", true) => switches += 1,
            _ => fragments += 1,
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A test that finds no blocks must fail.
    assert!(
        nodes >= 2 && switches >= 1 && fragments >= 6,
        "{nodes} nodes, {switches} switches, {fragments} fragments"
    );
}

/// Creates the files that a configuration names, and checks it by the command for its kind.
fn check(folder: &Path, text: &str) -> Result<(), String> {
    let parsed: toml::Value = toml::from_str(text).map_err(|error| format!("{error} in\n{text}"))?;
    make_files(folder, &parsed, "");
    fs::write(folder.join("config.toml"), text).unwrap();
    let of = |section: &str| parsed.get(section).is_some();
    let args: &[&str] = if of("switch") {
        &["switch", "check", "--elsewhere", "--config", "config.toml"]
    } else if of("router") {
        &["router", "check", "--elsewhere", "--config", "config.toml"]
    } else {
        &["node", "check", "--elsewhere", "--quiet", "config.toml"]
    };
    let out = run(folder, args);
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

#[test]
fn every_example_of_a_configuration_passes_its_check() {
    let mut checked = 0;
    for name in ["node", "router", "switch"] {
        for entry in fs::read_dir(repository("examples").join(name)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let is_configuration =
                ["[node]", "[switch]", "[router]"].iter().any(|section| text.contains(section));
            if path.extension().is_some_and(|end| end == "toml") && is_configuration {
                let folder = tempfile::tempdir().unwrap();
                for other in fs::read_dir(path.parent().unwrap()).unwrap() {
                    let other = other.unwrap();
                    fs::copy(other.path(), folder.path().join(other.file_name())).unwrap();
                }
                check(folder.path(), &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "{checked} configurations");
}
