//! Memory between inaccessible pages, for tests: an access beyond either end faults.
//!
//! Memory is whole pages, so only one of its ends can lie at a wall: a test is run twice.

use std::cell::Cell;
use std::ptr::NonNull;

/// The end of each memory that lies at a wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardedEnd {
    Start,
    End,
}

impl GuardedEnd {
    pub(crate) const BOTH: [Self; 2] = [Self::Start, Self::End];

    /// Where in a slice so long so many elements lie at its wall.
    pub(crate) const fn part(self, of: usize, len: usize) -> std::ops::Range<usize> {
        match self {
            Self::Start => 0..len,
            Self::End => of - len..of,
        }
    }
}

/// A multiple of the size of a page of any system.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE: usize = 1 << 16;

thread_local! {
    static FLUSH: Cell<Option<GuardedEnd>> = const { Cell::new(None) };
}

/// Takes the memory that this thread asks for meanwhile between walls, where there are such.
pub(crate) fn between<T>(flush: GuardedEnd, make: impl FnOnce() -> T) -> T {
    FLUSH.set(Some(flush));
    let made = make();
    FLUSH.set(None);
    made
}

/// Whether this thread takes memory between walls now.
pub(super) fn are_wanted() -> bool {
    FLUSH.get().is_some()
}

/// Pages of which the first and the last are walls.
#[derive(Debug)]
pub(super) struct GuardPages {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for GuardPages {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for GuardPages {}

/// Zeroed memory of so many bytes between walls, if this thread wants it so.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn map(bytes: usize) -> Option<(NonNull<u8>, GuardPages)> {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
    let flush = FLUSH.get()?;
    let inside = bytes.next_multiple_of(PAGE);
    // SAFETY: a mapping where the system likes, and access to the pages inside it, which are ours alone.
    let first = unsafe {
        let first =
            mmap_anonymous(std::ptr::null_mut(), inside + 2 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE);
        let first = first.expect("address space").cast::<u8>();
        mprotect(first.add(PAGE).cast(), inside, MprotectFlags::READ | MprotectFlags::WRITE).expect("memory");
        first
    };
    let skipped = match flush {
        GuardedEnd::Start => 0,
        GuardedEnd::End => inside - bytes,
    };
    let start = NonNull::new(first.wrapping_add(PAGE + skipped))?;
    Some((start, GuardPages { first: NonNull::new(first)?, bytes: inside + 2 * PAGE }))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn map(_: usize) -> Option<(NonNull<u8>, GuardPages)> {
    None
}

impl Drop for GuardPages {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: mapped in `map`, and no user is left. It fails only for ranges that are no mapping.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.bytes) };
        let _ = (self.first, self.bytes);
    }
}

#[cfg(all(target_os = "linux", not(any(miri, tsan))))]
#[cfg(test)]
mod tests {
    use super::super::HugeSlice;
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Reads the word behind a slice, or the one in front of it.
    fn read_beyond(flush: GuardedEnd) {
        let slice = between(flush, || HugeSlice::<u32>::zeroed(1001));
        assert_eq!(slice[0] | slice[1000], 0);
        let beyond = match flush {
            GuardedEnd::Start => slice.as_ptr().wrapping_sub(1),
            GuardedEnd::End => slice.as_ptr().wrapping_add(slice.len()),
        };
        // SAFETY: none: what this reads is a wall.
        println!("read {}", unsafe { beyond.read_volatile() });
    }

    /// Or what passes between walls shows nothing. The test runs itself in processes that are to die.
    #[test]
    fn one_word_beyond_either_end_faults() {
        if let Ok(name) = std::env::var("READ_BEYOND") {
            return read_beyond(if name == "Start" { GuardedEnd::Start } else { GuardedEnd::End });
        }
        for flush in GuardedEnd::BOTH {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "huge::guard_pages::tests::one_word_beyond_either_end_faults"]);
            let status =
                again.env("READ_BEYOND", format!("{flush:?}")).stdout(std::process::Stdio::null()).status();
            assert_eq!(status.unwrap().signal(), Some(11), "{flush:?}"); // SIGSEGV
        }
    }
}
