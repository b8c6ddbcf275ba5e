//! A simulated disk for tests and fuzzing: loses data that was not made durable, and fails on demand.

use super::storage::{Storage, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Unit in which a power failure tears writes; sectors and pages of real disks are larger.
const SECTOR_BYTES: usize = 64;

/// An injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails. A write writes half; an fsync makes nothing durable, and later fsyncs do not either.
    Error,
    /// The power fails during the operation: nothing works until [`MemoryDisk::power_on`].
    PowerOff,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Size(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Size(size) => content.resize(*size, 0),
        }
    }

    /// Its first `len` bytes.
    fn front(&self, len: usize) -> Self {
        match self {
            Self::Write { offset, bytes } => {
                Self::Write { offset: *offset, bytes: bytes[..len.min(bytes.len())].to_vec() }
            }
            Self::Size(size) => Self::Size(*size),
        }
    }
}

#[derive(Debug, Default)]
struct Content {
    /// Content that readers see.
    seen: Vec<u8>,
    /// Durable content.
    durable: Vec<u8>,
    /// Changes that the next fsync makes durable.
    pending: Vec<Change>,
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }

    fn crash(&mut self, pick: &mut dyn FnMut(u64) -> u64) {
        let pending = std::mem::take(&mut self.pending);
        match pick(4) {
            0 => {}
            1 => pending.iter().for_each(|change| change.apply(&mut self.durable)),
            2 => {
                let whole = pick(pending.len() as u64 + 1) as usize;
                pending[..whole].iter().for_each(|change| change.apply(&mut self.durable));
                if let Some(Change::Write { bytes, .. }) = pending.get(whole) {
                    let len = pick(bytes.len() as u64 + 1) as usize;
                    pending[whole].front(len).apply(&mut self.durable);
                }
            }
            _ => {
                for change in &pending {
                    match change {
                        Change::Write { offset, bytes } => {
                            for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                                let offset = offset + i * SECTOR_BYTES;
                                if pick(2) == 0 {
                                    Change::Write { offset, bytes: sector.to_vec() }.apply(&mut self.durable);
                                }
                            }
                        }
                        Change::Size(_) if pick(2) == 0 => change.apply(&mut self.durable),
                        Change::Size(_) => {}
                    }
                }
            }
        }
        self.seen = self.durable.clone();
    }
}

#[derive(Debug, Default)]
struct Disk {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Rises with each power failure: files opened before no longer work.
    life: u64,
    is_off: bool,
    operations: u64,
    syncs: u64,
    faults: BTreeMap<u64, Fault>,
    capacity_bytes: Option<usize>,
    transfer_bytes: Option<usize>,
}

impl Disk {
    /// Counts a changing operation, and returns its injected failure.
    fn operation(&mut self) -> Option<Fault> {
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        self.is_off |= fault == Some(Fault::PowerOff);
        fault
    }

    fn id(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn free_bytes(&self) -> usize {
        let used: usize = self.names.values().map(|&id| self.files[id].seen.len()).sum();
        self.capacity_bytes.map_or(usize::MAX, |capacity| capacity.saturating_sub(used))
    }
}

fn broken() -> io::Error {
    io::Error::other("injected")
}

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Disk>>);

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as seen by a process that starts now.
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(Connection { disk: self.clone(), life: self.lock().life })
    }

    /// Injects a failure into the n-th changing operation of the disk.
    pub fn fail(&self, operation: u64, fault: Fault) {
        self.lock().faults.insert(operation, fault);
    }

    /// Number of changing operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Number of syncs.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Sets the size of the disk; `None`: unlimited.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.lock().capacity_bytes = bytes;
    }

    /// Limits the bytes of each read and write; `None`: unlimited.
    pub fn set_transfer(&self, bytes: Option<usize>) {
        self.lock().transfer_bytes = bytes;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.lock().is_off
    }

    /// A power failure, if the power is on, and the start after it. `pick(n)` returns a number below `n`; it decides
    /// which parts of the changes that were not made durable survive.
    pub fn power_on(&self, pick: &mut dyn FnMut(u64) -> u64) {
        let mut disk = self.lock();
        disk.life += 1;
        disk.is_off = false;
        disk.faults.clear();
        disk.files.iter_mut().for_each(|file| file.crash(pick));
        let Disk { names, durable_names, .. } = &mut *disk;
        let all: BTreeSet<String> = names.keys().chain(durable_names.keys()).cloned().collect();
        let mode = pick(3);
        for name in all {
            let (new, old) = (names.get(&name).copied(), durable_names.get(&name).copied());
            let is_new = new != old && (mode == 0 || (mode == 1 && pick(2) == 0));
            match if is_new { new } else { old } {
                Some(id) => drop(names.insert(name, id)),
                None => drop(names.remove(&name)),
            }
        }
        *durable_names = names.clone();
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// Content of a file; empty if there is none.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let disk = self.lock();
        disk.id(name).map(|id| disk.files[id].seen.clone()).unwrap_or_default()
    }

    /// Stores a file durably, without faults.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut disk = self.lock();
        let id = disk.files.len();
        disk.files.push(Content { seen: bytes.to_vec(), durable: bytes.to_vec(), pending: Vec::new() });
        disk.names.insert(name.to_owned(), id);
        disk.durable_names.insert(name.to_owned(), id);
    }

    /// Flips bits of a file: `mask` of the byte at `offset`.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut disk = self.lock();
        let Ok(id) = disk.id(name) else { return };
        let Content { seen, durable, .. } = &mut disk.files[id];
        for byte in [seen.get_mut(offset), durable.get_mut(offset)].into_iter().flatten() {
            *byte ^= mask;
        }
    }

    /// Removes a file durably, without faults.
    pub fn take_away(&self, name: &str) {
        let mut disk = self.lock();
        disk.names.remove(name);
        disk.durable_names.remove(name);
    }

    /// An independent copy of the current content, all of it durable.
    pub fn copy(&self) -> Self {
        let copy = Self::default();
        for name in self.names() {
            copy.put(&name, &self.content(&name));
        }
        copy
    }
}

/// Access to the disk until the next power failure.
#[derive(Debug)]
struct Connection {
    disk: MemoryDisk,
    life: u64,
}

impl Connection {
    fn lock(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.lock();
        if disk.is_off || disk.life != self.life { Err(broken()) } else { Ok(disk) }
    }

    /// Begins an operation that is atomic.
    fn change(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.lock()?;
        if disk.operation().is_some() { Err(broken()) } else { Ok(disk) }
    }

    fn file(&self, id: usize) -> Arc<dyn StoredFile> {
        Arc::new(OpenFile { connection: Self { disk: self.disk.clone(), life: self.life }, id })
    }
}

impl Storage for Connection {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock()?.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let mut disk = self.change()?;
        let next = disk.files.len();
        let id = *disk.names.entry(name.to_owned()).or_insert(next);
        if id == next {
            disk.files.push(Content::default());
        }
        disk.files[id].change(Change::Size(0));
        drop(disk);
        Ok(self.file(id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        let id = self.lock()?.id(name)?;
        Ok(self.file(id))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.change()?;
        disk.id(name)?;
        disk.names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.change()?;
        let id = disk.id(from)?;
        disk.names.remove(from);
        disk.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut disk = self.change()?;
        disk.syncs += 1;
        disk.durable_names = disk.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct OpenFile {
    connection: Connection,
    id: usize,
}

impl StoredFile for OpenFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.connection.lock()?.files[self.id].seen.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.connection.lock()?;
        let content = disk.files[self.id].seen.get(offset as usize..).unwrap_or_default();
        let len = content.len().min(bytes.len()).min(disk.transfer_bytes.unwrap_or(usize::MAX));
        bytes[..len].copy_from_slice(&content[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.connection.lock()?;
        let fault = disk.operation();
        let inside = disk.files[self.id].seen.len().saturating_sub(offset as usize);
        let room = disk.free_bytes().saturating_add(inside);
        let mut len = bytes.len().min(disk.transfer_bytes.unwrap_or(usize::MAX));
        if fault.is_some() {
            len /= 2;
        }
        if len > room {
            len = room;
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        disk.files[self.id].change(Change::Write { offset: offset as usize, bytes: bytes[..len].to_vec() });
        if fault.is_some() { Err(broken()) } else { Ok(len) }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.connection.change()?.files[self.id].change(Change::Size(size as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.connection.lock()?;
        let fault = disk.operation();
        disk.syncs += 1;
        let file = &mut disk.files[self.id];
        match fault {
            Some(Fault::PowerOff) => return Err(broken()),
            Some(Fault::Error) => {
                file.pending.clear();
                return Err(broken());
            }
            None => {}
        }
        for change in std::mem::take(&mut file.pending) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }
}
