//! Snapshots of the names, so that the log need not be kept for ever: a line of JSON that says what they are, and then the names as a
//! file has them.

use super::super::config::SwitchFile;
use scalebricks_apps::switch::file::{NameList, parse_names};
use scalebricks_control::engine::WriterId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format.
const VERSION: u16 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u16,
    kind: String,
    names: u64,
    /// The newest batch of each writer: what is logged again is void.
    writers: Vec<(u64, u64)>,
}

/// Why bytes are no snapshot that this switch may begin with.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    #[error("its head: {0}")]
    Head(#[from] serde_json::Error),
    #[error("version {0}, and this software knows {VERSION}")]
    Version(u16),
    #[error("names of the kind '{0}' are not this switch's")]
    Kind(String),
    #[error("{found} of {told} names")]
    Short { found: u64, told: u64 },
}

/// What a snapshot says.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) newest: BTreeMap<WriterId, u64>,
    pub(super) list: NameList,
    /// Names that are nothing to this switch, as it lacks a port; and what is wrong with the first of them.
    pub(super) foreign: Option<(usize, String)>,
}

/// A snapshot of these lines.
pub(super) fn encode(
    kind: &str,
    newest: &BTreeMap<WriterId, u64>,
    lines: &[String],
) -> Result<Vec<u8>, serde_json::Error> {
    let writers = newest.iter().map(|(writer, &number)| (writer.0, number)).collect();
    let head = Head { version: VERSION, kind: kind.to_owned(), names: lines.len() as u64, writers };
    let mut bytes = serde_json::to_vec(&head)?;
    bytes.push(b'\n');
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
    }
    Ok(bytes)
}

/// What the bytes say.
pub(super) fn decode(file: &SwitchFile, bytes: &[u8]) -> Result<Names, SnapshotError> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (head, lines) = bytes.split_at(end);
    let head: Head = serde_json::from_slice(head)?;
    if head.version != VERSION {
        return Err(SnapshotError::Version(head.version));
    }
    if head.kind != file.names.kind.word() {
        return Err(SnapshotError::Kind(head.kind));
    }
    let mut names = Names {
        newest: head.writers.into_iter().map(|(writer, number)| (WriterId(writer), number)).collect(),
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
    if found != head.names {
        return Err(SnapshotError::Short { found, told: head.names });
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
            // Without the last line's end all of it is there still, unless the line itself is cut.
            let cut = decode(&file, &bytes[..end]);
            let is_told = cut.as_ref().map_or(true, |names| names.foreign.is_some());
            assert!(is_told, "{end}: {cut:?}");
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
        assert!(matches!(decode(&file, b"\xff\n"), Err(SnapshotError::Head(_))));
    }
}
