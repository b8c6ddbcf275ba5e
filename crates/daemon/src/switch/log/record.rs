//! What stands in the log: changes of names, as text.

use scalebricks_admin::model::switch::ChangeView;
use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u16 = 1;

/// An entry: changes that are done one after another, all of them or none. Whether they are done follows from the entries before it,
/// at every switch alike.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    version: u16,
    /// What names are: a switch of another kind does not share them.
    kind: String,
    changes: Vec<ChangeView>,
}

/// Why bytes are no entry that this switch may follow.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("not changes of names: {0}")]
    Format(#[from] serde_json::Error),
    #[error("version {0}, and this software knows {VERSION}")]
    Version(u16),
    #[error("names of the kind '{0}' are not this switch's")]
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
