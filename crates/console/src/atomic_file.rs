//! Writes files atomically.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; choose another place for it", path.display())]
pub struct WriteFileError {
    path: PathBuf,
    source: io::Error,
}

/// Writes a file through a temporary file in the same directory, which is renamed once it is complete.
/// Creates missing directories. If writing fails, an older file remains unchanged.
///
/// # Errors
/// [`WriteFileError`] names the file.
pub fn write(path: &Path, content: &[u8]) -> Result<(), WriteFileError> {
    let write = || {
        fs::create_dir_all(directory(path))?;
        let mut file = AtomicWriter::create(path)?;
        file.write_all(content)?;
        file.finish()
    };
    write().map_err(|source| WriteFileError { path: path.to_owned(), source })
}

/// Writes a file in pieces and renames it into place on completion. If it is dropped earlier, an older file
/// remains unchanged.
#[derive(Debug)]
pub struct AtomicWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl AtomicWriter {
    /// Creates the temporary file, in the same directory, so that the rename stays within one file system.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        // As for any new file; the process's umask applies.
        let permissions = Permissions::from_mode(0o666);
        let file = tempfile::Builder::new().permissions(permissions).tempfile_in(directory(path))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Completes the file and renames it into place.
    ///
    /// # Errors
    /// Errors of the system; an older file then remains unchanged.
    pub fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(self.path)?;
        Ok(())
    }
}

/// The directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new").join("a.txt");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let names: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["a.txt"]);
    }

    #[test]
    fn a_growing_file_is_there_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        let names = || fs::read_dir(directory.path()).unwrap().count();
        fs::write(&path, b"old").unwrap();
        let mut growing = AtomicWriter::create(&path).unwrap();
        growing.write_all(b"half").unwrap();
        drop(growing);
        assert_eq!((fs::read(&path).unwrap(), names()), (b"old".to_vec(), 1));
        let mut growing = AtomicWriter::create(&path).unwrap();
        growing.write_all(b"one, ").unwrap();
        growing.write_all(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        growing.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"one, two".to_vec(), 1));
        assert!(AtomicWriter::create(&directory.path().join("no/such/file")).is_err());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        write(&file, b"").unwrap();
        let error = write(&file.join("below"), b"").unwrap_err();
        assert!(error.to_string().contains("below"), "{error}");
    }
}
