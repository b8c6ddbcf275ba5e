//! The file operations that a log needs, as traits: tests inject failures.

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A directory of files, used by one process.
///
/// A file's content is durable after [`StoredFile::sync`], its name after [`Storage::sync_names`]: without both, a
/// crash may leave any mixture of old and new.
pub trait Storage: Send + Sync + Debug {
    /// The names of all files.
    ///
    /// # Errors
    /// Of the operating system.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file; replaces an existing one.
    ///
    /// # Errors
    /// Of the operating system.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>>;

    /// Opens a file.
    ///
    /// # Errors
    /// Of the operating system.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>>;

    /// Removes a name. Open files can still be read.
    ///
    /// # Errors
    /// Of the operating system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file; replaces a file of the new name.
    ///
    /// # Errors
    /// Of the operating system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes the names durable.
    ///
    /// # Errors
    /// Of the operating system.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
pub trait StoredFile: Send + Sync + Debug {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Of the operating system.
    fn size(&self) -> io::Result<u64>;

    /// Reads at `offset`; may read less than `bytes`, and 0 bytes at the end.
    ///
    /// # Errors
    /// Of the operating system.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`; may write less than `bytes`.
    ///
    /// # Errors
    /// Of the operating system; some may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Truncates the file.
    ///
    /// # Errors
    /// Of the operating system.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// Of the operating system. Then the state of what was written since the last success is unknown, and a retry does
    /// not help: the system may have dropped those pages and report success.
    fn sync(&self) -> io::Result<()>;
}

/// Fills `bytes` from `offset` on; `false` if the file is too short.
pub(super) fn read_exact_at(
    file: &dyn StoredFile,
    mut bytes: &mut [u8],
    mut offset: u64,
) -> io::Result<bool> {
    while !bytes.is_empty() {
        match file.read_at(bytes, offset) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                bytes = bytes.get_mut(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write_all_at(file: &dyn StoredFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = bytes.get(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Name of the lock file.
const LOCK: &str = "lock";

/// A directory of the operating system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    handle: File,
}

/// Locks a directory against other processes, until dropped.
#[derive(Debug)]
pub struct DirectoryLock(#[expect(dead_code, reason = "the lock ends when the file is closed")] File);

impl Directory {
    /// Locks a directory against writers, and opens it read-only: creates no file, and operations that change something
    /// fail.
    ///
    /// # Errors
    /// `None` if another process has it, otherwise of the operating system.
    pub fn lock_for_reading(path: &Path) -> Result<(ReadOnly, Option<DirectoryLock>), Option<io::Error>> {
        let handle = File::open(path)?;
        // Without the file the directory was never opened, or is a copy.
        let lock = match File::open(path.join(LOCK)) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(lock) = &lock {
            lock.try_lock_shared().map_err(held)?;
        }
        Ok((ReadOnly(Self { path: path.to_owned(), handle }), lock.map(DirectoryLock)))
    }

    /// Locks a directory; creates it if there is none.
    ///
    /// # Errors
    /// `None` if another process has it, otherwise of the operating system.
    pub fn lock(path: &Path) -> Result<(Self, DirectoryLock), Option<io::Error>> {
        if !path.is_dir() {
            std::fs::create_dir_all(path)?;
            if let Some(parent) = path.parent() {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                File::open(parent)?.sync_all()?;
            }
        }
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        lock.try_lock().map_err(held)?;
        Ok((Self { path: path.to_owned(), handle: File::open(path)? }, DirectoryLock(lock)))
    }
}

fn held(error: TryLockError) -> Option<io::Error> {
    match error {
        TryLockError::WouldBlock => None,
        TryLockError::Error(error) => Some(error),
    }
}

/// A read-only directory of the operating system.
#[derive(Debug)]
pub struct ReadOnly(Directory);

impl Storage for ReadOnly {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(File::open(self.0.path.join(name))?))
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn StoredFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

impl Storage for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is not of a log.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).read(true).write(true);
        Ok(Arc::new(options.open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl StoredFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data() // flushes the length too: without it the data could not be read
    }
}

/// Fsyncs per second of a file that grows by `bytes` each time: the bound for a log on this storage.
///
/// # Errors
/// Of the operating system.
pub fn sync_rate(storage: &dyn Storage, bytes: usize, time: Duration) -> io::Result<f64> {
    const NAME: &str = "sync-rate";
    let file = storage.create(NAME)?;
    let payload = vec![1; bytes];
    let (start, mut count) = (Instant::now(), 0_u32);
    while count == 0 || start.elapsed() < time {
        file.write_at(&payload, u64::from(count) * bytes as u64)?;
        file.sync()?;
        count += 1;
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    storage.remove(NAME)?;
    Ok(rate)
}
