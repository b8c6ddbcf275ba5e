//! The binary's allocator: small blocks by mimalloc, large ones by the system, or on huge pages where a benchmark wants them.
//!
//! The control plane passes small blocks from thread to thread all the time, over which glibc's arenas make threads wait for
//! each other: with mimalloc four nodes in a process took 1.6 times as many updates (`scalebricks bench control`).
//!
//! Where the system grants huge pages to those who ask (`madvise`), a table that asks would be measured against tables
//! that never heard of it. So the allocator maps every large block as our tables map theirs ([`huge::map`]), once
//! [`HugePages::turn_on`] was called: benchmarks call it, and nothing else does. Such a block begins with a huge page, so that
//! a table of a few megabytes has no small pages at its ends, and goes back to the system when it is freed.
#![allow(unsafe_code)]

#[cfg(not(miri))]
use mimalloc::MiMalloc as Small;
use scalebricks_tables::huge::{self, HUGE_PAGE};
#[cfg(miri)]
use std::alloc::System as Small;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks from here on are large: the size from which our tables ask for huge pages.
const FROM: usize = HUGE_PAGE;

/// The lowest bit: whether large blocks are mapped. Above it, how many there are that are not. As the bit is only set while
/// there is none, all large blocks that are there were made in the same way.
static STATE: AtomicUsize = AtomicUsize::new(0);

/// The bit of [`STATE`].
const MAPPED: usize = 1;

/// A block in [`STATE`].
const BLOCK: usize = 2;

/// mimalloc, and for large blocks the system's allocator, or the system itself if told so.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

impl HugePages {
    /// Puts all large blocks on huge pages from now on. `false` if it cannot: there are large blocks already, or the system
    /// is none that has them.
    pub fn turn_on() -> bool {
        if cfg!(not(all(target_os = "linux", not(miri)))) {
            return false;
        }
        match STATE.compare_exchange(0, MAPPED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state & MAPPED > 0,
        }
    }

    /// Bytes of this process that lie on huge pages; `None` where the system does not say.
    pub fn held_bytes() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
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

/// Whether a block is large. A stricter alignment than that of huge pages is mimalloc's business.
#[inline]
const fn is_large(layout: Layout) -> bool {
    layout.size() >= FROM && layout.align() <= HUGE_PAGE
}

/// The bytes that a large block maps.
const fn mapped_bytes(size: usize) -> usize {
    size.next_multiple_of(HUGE_PAGE)
}

/// Whether the large block about to be made is mapped; one that is not is counted.
fn is_next_mapped() -> bool {
    let next = |state: usize| (state & MAPPED == 0).then_some(state + BLOCK);
    STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_err()
}

/// Whether the large blocks there are were mapped. Asked by who has one, which keeps the answer from changing.
fn are_mapped() -> bool {
    STATE.load(Ordering::Acquire) & MAPPED > 0
}

/// A large block by `system`, or mapped.
#[cold]
fn large(layout: Layout, system: impl FnOnce() -> *mut u8) -> *mut u8 {
    if is_next_mapped() {
        return huge::map(mapped_bytes(layout.size())).map_or(std::ptr::null_mut(), NonNull::as_ptr);
    }
    let block = system();
    if block.is_null() {
        STATE.fetch_sub(BLOCK, Ordering::AcqRel);
    }
    block
}

// SAFETY: a block is made by one of three: mimalloc, the system's allocator, and the system itself. Which of them has a block
// follows from its layout, which the caller gives when it is made and when it is freed, and for large ones from `STATE`, whose
// bit is the same at both times: it is set once, while none of the system's allocator is there, and never cleared. The first
// two are called with the caller's own arguments. What is mapped is at least as large as was asked, aligned to huge pages and
// so to all that is asked of large blocks, and zero. A block that grows or shrinks from one to the other is allocated anew,
// copied as far as both reach, and freed where it was.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // SAFETY: the caller's promise about the layout is passed on.
            large(layout, || unsafe { System.alloc(layout) })
        } else {
            // SAFETY: as above.
            unsafe { Small.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // SAFETY: as above; what is mapped is zero.
            large(layout, || unsafe { System.alloc_zeroed(layout) })
        } else {
            // SAFETY: as above.
            unsafe { Small.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size is one of a layout with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the caller's promises about block, layout and size are passed on, to who made the block.
            (false, false) => unsafe { Small.realloc(block, layout, size) },
            (true, true) if !are_mapped() => {
                // SAFETY: as above.
                unsafe { System.realloc(block, layout, size) }
            }
            (true, true) if mapped_bytes(layout.size()) == mapped_bytes(size) => block,
            // SAFETY: as the caller promises.
            _ => unsafe { moved(block, layout, new) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the caller's promises about block and layout are passed on.
            unsafe { free_large(block, layout) }
        } else {
            // SAFETY: as above.
            unsafe { Small.dealloc(block, layout) }
        }
    }
}

/// Frees a large block.
///
/// # Safety
/// As for [`GlobalAlloc::dealloc`], for a large block of [`HugePages`].
#[cold]
unsafe fn free_large(block: *mut u8, layout: Layout) {
    if are_mapped() {
        if let Some(start) = NonNull::new(block) {
            // SAFETY: all large blocks were mapped, in whole huge pages; the caller is done with this one.
            unsafe { huge::unmap(start, mapped_bytes(layout.size())) }
        }
    } else {
        // SAFETY: the caller's promises are passed on, to who made the block. It is counted until it is gone.
        unsafe { System.dealloc(block, layout) }
        STATE.fetch_sub(BLOCK, Ordering::AcqRel);
    }
}

/// Moves a block to another size.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a block goes through: made, written, grown and shrunk over all borders, freed.
    fn goes_through() {
        let of = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: no layout is empty; the block is written and read within its size, and freed as it is.
        unsafe {
            let mut block = HugePages.alloc(of(100));
            block.add(99).write(7);
            let mut now = 100;
            for size in [FROM - 1, FROM, FROM + 9, 2 * FROM + 1, FROM, FROM - 1, 100] {
                block = HugePages.realloc(block, of(now), size);
                assert!(!block.is_null() && block.align_offset(64) == 0);
                assert_eq!(block.add(99).read(), 7, "{now} to {size}");
                block.add(size - 1).write(if size == 100 { 7 } else { 1 });
                now = size;
            }
            HugePages.dealloc(block, of(now));
            let large = of(FROM + 12_345);
            let block = HugePages.alloc_zeroed(large);
            assert!(!block.is_null() && block.align_offset(64) == 0);
            assert!((0..large.size()).step_by(4096).all(|at| block.add(at).read() == 0));
            HugePages.dealloc(block, large);
        }
    }

    /// One test, as the state is the process's.
    #[test]
    fn blocks_keep_what_is_in_them_and_huge_pages_wait_until_the_system_has_all_its_blocks_back() {
        goes_through();
        let layout = Layout::from_size_align(3 * FROM, 8).unwrap();
        // SAFETY: the layout is not empty, and the block is freed as it was made.
        unsafe {
            let block = HugePages.alloc(layout);
            assert!(!HugePages::turn_on(), "a large block is there");
            HugePages.dealloc(block, layout);
        }
        let has_them = cfg!(all(target_os = "linux", not(miri)));
        assert_eq!((HugePages::turn_on(), HugePages::turn_on()), (has_them, has_them));
        goes_through();
        // SAFETY: as above.
        unsafe {
            let block = HugePages.alloc(layout);
            assert!(!has_them || !block.is_null() && block.align_offset(HUGE_PAGE) == 0);
            HugePages.dealloc(block, layout);
        }
    }
}
