//! The entries of the log: changes of names, as JSON.

use scalebricks_admin::model::switch::ChangeView;
use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u16 = 1;

/// An entry: changes that are applied one after another, all of them or none. Whether they are applied depends only on
/// the entries before it, so all switches agree.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    version: u16,
    /// The kind of names. Switches of different kinds do not share a log.
    kind: String,
    changes: Vec<ChangeView>,
}

/// Why an entry cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("cannot decode changes of names: {0}")]
    Format(#[from] serde_json::Error),
    #[error("unknown version {0}; this software knows {VERSION}")]
    Version(u16),
    #[error("names of kind '{0}' are not those of this switch")]
    Kind(String),
}

/// An entry of these changes.
pub(super) fn encode(kind: &str, changes: &[ChangeView]) -> Result<Vec<u8>, RecordError> {
    let record = Record { version: VERSION, kind: kind.to_owned(), changes: changes.to_vec() };
    Ok(serde_json::to_vec(&record)?)
}

/// The changes of an entry.
pub(super) fn decode(kind: &str, bytes: &[u8]) -> Result<Vec<ChangeView>, RecordError> {
    let record: Record = serde_json::from_slice(bytes)?;
    if record.version != VERSION {
        return Err(RecordError::Version(record.version));
    }
    if record.kind != kind {
        return Err(RecordError::Kind(record.kind));
    }
    Ok(record.changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_admin::model::switch::Change;

    #[test]
    fn entries_are_read_as_they_were_written_and_others_are_refused() {
        let add = ChangeView { op: Change::Add, name: "a".into(), action: Some("drop".into()) };
        let remove = ChangeView { op: Change::Remove, name: "b".into(), action: None };
        let bytes = encode("bytes", &[add.clone(), remove.clone()]).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            r#"{"version":1,"kind":"bytes","changes":[{"op":"add","name":"a","action":"drop"},{"op":"remove","name":"b"}]}"#
        );
        assert_eq!(decode("bytes", &bytes).unwrap(), [add, remove]);
        assert!(matches!(decode("mac", &bytes), Err(RecordError::Kind(_))));
        let newer = String::from_utf8(bytes).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(matches!(decode("bytes", newer.as_bytes()), Err(RecordError::Version(2))));
        assert!(matches!(decode("bytes", b"{}"), Err(RecordError::Format(_))));
    }
}
