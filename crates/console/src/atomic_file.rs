//! Writes files atomically.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

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
    let temporary = beside(path);
    let written = write_and_rename(path, &temporary, content);
    written.map_err(|source| {
        // The temporary file may not exist; the first error is the one to report.
        drop(fs::remove_file(&temporary));
        WriteFileError { path: path.to_owned(), source }
    })
}

fn write_and_rename(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
    }
    let mut file = BufWriter::new(File::create(temporary)?);
    file.write_all(content)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(temporary, path)
}

/// Writes a file in pieces and renames it into place on completion. If it is dropped earlier, an older file
/// remains unchanged.
#[derive(Debug)]
pub struct AtomicWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl AtomicWriter {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let temporary = beside(path);
        let file = Some(BufWriter::new(File::create(&temporary)?));
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Completes the file and renames it into place.
    ///
    /// # Errors
    /// Errors of the system; an older file then remains unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_mut() {
            file.flush()?;
            file.get_ref().sync_all()?;
        }
        fs::rename(&self.temporary, &self.path)?;
        self.file = None;
        Ok(())
    }
}

impl Drop for AtomicWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // An incomplete file is useless, so errors are ignored.
            drop(fs::remove_file(&self.temporary));
        }
    }
}

/// A name in the same directory, so that the rename stays within one file system.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
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
