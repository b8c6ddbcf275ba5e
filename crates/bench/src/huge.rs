//! Huge pages for the memory of all structures alike, those of other authors too.
//!
//! Where the system grants huge pages to those who ask (`madvise`), a table that asks would be measured against tables
//! that never heard of it. So the binary's allocator asks for every large block, once [`HugePages::turn_on`] was
//! called: benchmarks call it, and nothing else does.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks from here on are advised: a huge page, and whatever its alignment costs.
const FROM: usize = 4 << 20;

/// Whether large blocks are advised.
static ON: AtomicBool = AtomicBool::new(false);

/// The system's allocator, which asks for huge pages for large blocks if told so.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

impl HugePages {
    /// Asks for huge pages for all large blocks from now on.
    pub fn turn_on() {
        ON.store(true, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments, and what that returns is returned.
// Advice about pages changes neither addresses nor contents.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises about block, layout and size are passed on.
        advised(unsafe { System.realloc(block, layout, size) }, size)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
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
