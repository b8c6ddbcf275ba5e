//! The binary's allocator: small blocks by mimalloc, large ones by the system, on huge pages where a benchmark wants them.
//!
//! The control plane passes small blocks from thread to thread all the time, over which glibc's arenas make threads wait for
//! each other: with mimalloc four nodes in a process took 1.6 times as many updates (`scalebricks bench control`).
//!
//! Where the system grants huge pages to those who ask (`madvise`), a table that asks would be measured against tables
//! that never heard of it. So the allocator asks for every large block, once [`HugePages::turn_on`] was called: benchmarks
//! call it, and nothing else does.
#![allow(unsafe_code)]

#[cfg(not(miri))]
use mimalloc::MiMalloc as Small;
#[cfg(miri)]
use std::alloc::System as Small;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks from here on are the system's, and advised: a huge page, and whatever its alignment costs.
const FROM: usize = 4 << 20;

/// Whether large blocks are advised.
static ON: AtomicBool = AtomicBool::new(false);

/// mimalloc, and for large blocks the system's allocator, which asks for huge pages if told so.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

impl HugePages {
    /// Asks for huge pages for all large blocks from now on.
    pub fn turn_on() {
        ON.store(true, Ordering::Relaxed);
    }
}

/// Writes to so much memory and gives it back at once, so that whoever is timed next is given memory that the machine has.
///
/// A virtual machine may tell its host of memory that was free for a while (free page reporting, after two seconds), and
/// the host takes it away; whoever gets it next waits for the host, page by page, which takes far longer than clearing a
/// page that is there. Of builds in turn, that was the one before which most memory had been free for longest.
pub fn warm(bytes: u64) {
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(memory);
}

// SAFETY: every call goes to one of two allocators with the caller's own arguments, and what that returns is returned. Which of
// them follows from the size in the layout alone, which the caller gives when a block is made and when it is freed. A block
// that grows or shrinks from one to the other is allocated anew, copied as far as both reach, and freed where it was.
// Advice about pages changes neither addresses nor contents.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < FROM {
            // SAFETY: the caller's promise about the layout is passed on.
            return unsafe { Small.alloc(layout) };
        }
        // SAFETY: as above.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < FROM {
            // SAFETY: as above.
            return unsafe { Small.alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (layout.size() < FROM, size < FROM) {
            // SAFETY: the caller's promises about block, layout and size are passed on, to who made the block.
            (true, true) => unsafe { Small.realloc(block, layout, size) },
            // SAFETY: as above.
            (false, false) => advised(unsafe { System.realloc(block, layout, size) }, size),
            // SAFETY: the caller promises that the new size is one of a layout with this alignment.
            _ => unsafe { moved(block, layout, Layout::from_size_align_unchecked(size, layout.align())) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() < FROM {
            // SAFETY: as above.
            unsafe { Small.dealloc(block, layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.dealloc(block, layout) }
        }
    }
}

/// Moves a block from one of the allocators to the other.
///
/// # Safety
/// As for [`GlobalAlloc::realloc`], for a block of [`HugePages`].
#[cold]
unsafe fn moved(block: *mut u8, from: Layout, to: Layout) -> *mut u8 {
    // SAFETY: neither layout is empty; the new block is another than the old, both are as large as what is copied, and the
    // old one is freed only when there is a new one.
    unsafe {
        let new = HugePages.alloc(to);
        if !new.is_null() {
            block.copy_to_nonoverlapping(new, from.size().min(to.size()));
            HugePages.dealloc(block, from);
        }
        new
    }
}

#[inline]
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    if size >= FROM && ON.load(Ordering::Relaxed) && !block.is_null() {
        advise(block, size);
    }
    block
}

/// Asks for the whole pages within the block; a system that says no loses nothing but speed.
#[cold]
fn advise(block: *mut u8, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        const PAGE: usize = 4096;
        let skipped = block.align_offset(PAGE);
        let size = size.saturating_sub(skipped) & !(PAGE - 1);
        // SAFETY: the range lies within a block that was just allocated, and this advice keeps contents.
        let _ = unsafe { madvise(block.wrapping_add(skipped).cast(), size, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (block, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_what_is_in_it_from_one_allocator_to_the_other() {
        let of = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: no layout is empty; the block is written and read within its size, and freed as it is.
        unsafe {
            let mut block = HugePages.alloc(of(100));
            block.add(99).write(7);
            let mut now = 100;
            for size in [FROM - 1, FROM, 2 * FROM, FROM, FROM - 1, 100] {
                block = HugePages.realloc(block, of(now), size);
                assert!(!block.is_null() && block.align_offset(64) == 0);
                assert_eq!(block.add(99).read(), 7, "{now} to {size}");
                now = size;
            }
            HugePages.dealloc(block, of(now));
        }
    }

    #[test]
    fn blocks_are_those_of_the_system_with_or_without_advice() {
        let layout = Layout::from_size_align(FROM + 12_345, 64).unwrap();
        for _ in 0..2 {
            // SAFETY: the layout is not empty, and each block is grown, read within its size, and freed as it is.
            unsafe {
                let block = HugePages.alloc_zeroed(layout);
                assert!(!block.is_null() && block.align_offset(64) == 0);
                block.add(layout.size() - 1).write(7);
                let grown = HugePages.realloc(block, layout, 2 * FROM);
                assert_eq!((grown.read(), grown.add(layout.size() - 1).read()), (0, 7));
                HugePages.dealloc(grown, Layout::from_size_align(2 * FROM, 64).unwrap());
            }
            HugePages::turn_on();
        }
    }
}
