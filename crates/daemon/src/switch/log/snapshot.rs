//! Snapshots of the names, so that the log can be trimmed: a header line of JSON, then the names in the format of a
//! names file.

use super::super::config::SwitchFile;
use scalebricks_apps::switch::file::{NameList, parse_names};
use scalebricks_control::engine::WriterId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format.
const VERSION: u16 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u16,
    kind: String,
    names: u64,
    /// The newest batch of each writer: entries up to it are ignored.
    writers: Vec<(u64, u64)>,
}

/// Why a snapshot cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    #[error("cannot decode its header: {0}")]
    Header(#[from] serde_json::Error),
    #[error("unknown version {0}; this software knows {VERSION}")]
    Version(u16),
    #[error("names of kind '{0}' are not those of this switch")]
    Kind(String),
    #[error("it holds {found} names instead of {expected}")]
    Short { found: u64, expected: u64 },
}

/// A decoded snapshot.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) newest: BTreeMap<WriterId, u64>,
    pub(super) list: NameList,
    /// The number of names that this switch cannot use, as it lacks a port, and the error of the first.
    pub(super) foreign: Option<(usize, String)>,
}

/// Encodes names, one per line.
pub(super) fn encode(
    kind: &str,
    newest: &BTreeMap<WriterId, u64>,
    lines: &[String],
) -> Result<Vec<u8>, serde_json::Error> {
    let writers = newest.iter().map(|(writer, &number)| (writer.0, number)).collect();
    let header = Header { version: VERSION, kind: kind.to_owned(), names: lines.len() as u64, writers };
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
    }
    Ok(bytes)
}

/// Decodes a snapshot.
pub(super) fn decode(file: &SwitchFile, bytes: &[u8]) -> Result<Names, SnapshotError> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (header, lines) = bytes.split_at(end);
    let header: Header = serde_json::from_slice(header)?;
    if header.version != VERSION {
        return Err(SnapshotError::Version(header.version));
    }
    if header.kind != file.names.kind.word() {
        return Err(SnapshotError::Kind(header.kind));
    }
    let mut names = Names {
        newest: header.writers.into_iter().map(|(writer, number)| (WriterId(writer), number)).collect(),
        list: NameList::new(),
        foreign: None,
    };
    let mut found = 0;
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        found += 1;
        match parse_names(line, file.names.kind, &file.port_names) {
            Ok(name) => names.list.extend(name),
            Err(errors) => {
                let first = || errors.lines.first().map_or_else(String::new, |error| error.what.clone());
                names.foreign.get_or_insert_with(|| (0, first())).0 += 1;
            }
        }
    }
    if found != header.names {
        return Err(SnapshotError::Short { found, expected: header.names });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../../examples/switch/switch.toml");

    fn lines() -> Vec<String> {
        (0..9).map(|n| format!("02:00:00:00:00:0{n},forward rack{}\n", n % 2 + 1)).collect()
    }

    #[test]
    fn names_come_back_and_a_part_of_a_snapshot_is_none() {
        let file = SwitchFile::parse(EXAMPLE).unwrap();
        let newest = BTreeMap::from([(WriterId(3), 7), (WriterId(1 << 40), 1)]);
        let bytes = encode("mac", &newest, &lines()).unwrap();
        let names = decode(&file, &bytes).unwrap();
        assert_eq!((names.newest, names.list.len(), names.foreign), (newest, 9, None));
        for end in 0..bytes.len() - 1 {
            // Without the last line's end the names are complete, unless the line itself is cut.
            let cut = decode(&file, &bytes[..end]);
            let is_noticed = cut.as_ref().map_or(true, |names| names.foreign.is_some());
            assert!(is_noticed, "{end}: {cut:?}");
        }
    }

    #[test]
    fn what_this_switch_lacks_is_counted_and_other_snapshots_are_refused() {
        let file = SwitchFile::parse(EXAMPLE).unwrap();
        let with = [lines(), vec!["02:00:00:00:00:99,forward rack77\n".to_owned()]].concat();
        let bytes = encode("mac", &BTreeMap::new(), &with).unwrap();
        let names = decode(&file, &bytes).unwrap();
        let (count, first) = names.foreign.unwrap();
        assert!(names.list.len() == 9 && count == 1 && first.contains("rack77"), "{first}");
        let other = encode("ipv4", &BTreeMap::new(), &lines()).unwrap();
        assert!(matches!(decode(&file, &other), Err(SnapshotError::Kind(_))));
        let newer = String::from_utf8(bytes).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(matches!(decode(&file, newer.as_bytes()), Err(SnapshotError::Version(2))));
        assert!(matches!(decode(&file, b"\xff\n"), Err(SnapshotError::Header(_))));
    }
}
