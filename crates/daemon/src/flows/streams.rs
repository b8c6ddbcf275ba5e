//! The bytes of streams as files.

use crate::error::ProcessError;
use scalebricks_flows::Direction;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Most files that are open at a time.
const OPEN_FILES: usize = 256;

/// A folder with a file per direction of each connection that has data: `000001-forward`, `000001-reverse`.
pub(super) struct Streams {
    folder: PathBuf,
    open: HashMap<(u64, Direction), File>,
}

impl Streams {
    /// Creates the folder.
    ///
    /// # Errors
    /// If it cannot be created, or has files, which would mix with those of other runs.
    pub(super) fn create(folder: &Path) -> Result<Self, ProcessError> {
        fs::create_dir_all(folder).map_err(ProcessError::file(folder))?;
        if fs::read_dir(folder).map_err(ProcessError::file(folder))?.next().is_some() {
            return Err(ProcessError::Usage(format!(
                "{}: the folder for streams is not empty: name another one",
                folder.display()
            )));
        }
        Ok(Self { folder: folder.to_owned(), open: HashMap::new() })
    }

    /// Appends bytes to a stream's file.
    pub(super) fn write(
        &mut self,
        serial: u64,
        direction: Direction,
        bytes: &[u8],
    ) -> Result<(), ProcessError> {
        let suffix = match direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        };
        let path = self.folder.join(format!("{serial:06}-{suffix}"));
        if self.open.len() >= OPEN_FILES && !self.open.contains_key(&(serial, direction)) {
            self.open.clear();
        }
        let file = match self.open.entry((serial, direction)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let file = OpenOptions::new().append(true).create(true).open(&path);
                entry.insert(file.map_err(ProcessError::file(&path))?)
            }
        };
        file.write_all(bytes).map_err(ProcessError::file(&path))
    }
}
