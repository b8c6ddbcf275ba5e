//! The binary's allocator. Small blocks come from mimalloc; large ones come from the system, or from huge
//! pages when a benchmark asks for them.
//!
//! The control plane passes small blocks from thread to thread, and glibc's arenas make those threads wait
//! for each other. With mimalloc, four nodes in one process applied 1.6 times as many updates (`scalebricks-bench
//!  control`).
//!
//! Where the system grants huge pages only on request (`madvise`), a table that requests them would be
//! compared with tables that do not. So once [`HugePages::turn_on`] is called, the allocator maps every large
//! block as our tables map theirs ([`huge::map`]). Only benchmarks call it. Such a block starts on a huge
//! page, so that a table of a few megabytes has no small pages at its ends, and it returns to the system when
//! it is freed.
#![allow(unsafe_code)]

#[cfg(not(miri))]
use mimalloc::MiMalloc as Small;
use scalebricks_tables::huge::{self, HUGE_PAGE};
#[cfg(miri)]
use std::alloc::System as Small;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks of this size and above are large. Our tables request huge pages from the same size on.
const FROM: usize = HUGE_PAGE;

/// Lowest bit: whether large blocks are mapped. Other bits: number of large blocks that are not mapped. The
/// bit is set only while that number is zero, so all existing large blocks were made in the same way.
static STATE: AtomicUsize = AtomicUsize::new(0);

/// The lowest bit of [`STATE`].
const MAPPED: usize = 1;

/// One block in [`STATE`].
const BLOCK: usize = 2;

/// mimalloc for small blocks; for large blocks the system's allocator, or mappings on huge pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

impl HugePages {
    /// Puts all large blocks on huge pages from now on. Returns `false` if large blocks already exist or the
    /// platform does not support it.
    pub fn turn_on() -> bool {
        if cfg!(not(all(target_os = "linux", not(miri)))) {
            return false;
        }
        match STATE.compare_exchange(0, MAPPED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state & MAPPED > 0,
        }
    }

    /// Bytes of this process on huge pages; `None` where the system does not report them.
    pub fn held_bytes() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    }
}

/// Writes to this much memory and frees it at once, so that the code timed next gets memory that the machine
/// already has.
///
/// A virtual machine may return memory that was free for some time to its host (free page reporting, after
/// two seconds). The next user then waits for the host, page by page, which takes far longer than clearing a
/// page. Among interleaved builds, this slowed the one before which most memory had been free for longest.
pub fn warm(bytes: u64) {
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(memory);
}

/// Whether a block is large. Alignments stricter than a huge page go to mimalloc.
#[inline]
const fn is_large(layout: Layout) -> bool {
    layout.size() >= FROM && layout.align() <= HUGE_PAGE
}

/// Bytes that a large block maps.
const fn mapped_bytes(size: usize) -> usize {
    size.next_multiple_of(HUGE_PAGE)
}

/// Whether the next large block is mapped; if not, counts it.
fn is_next_mapped() -> bool {
    let next = |state: usize| (state & MAPPED == 0).then_some(state + BLOCK);
    STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_err()
}

/// Whether the existing large blocks are mapped. The caller holds one of them, so the answer cannot change.
fn are_mapped() -> bool {
    STATE.load(Ordering::Acquire) & MAPPED > 0
}

/// Makes a large block by `system`, or maps it.
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

// SAFETY: a block comes from mimalloc, from the system's allocator, or from a mapping. Its layout, which the
// caller passes at allocation and at release, tells small blocks from large ones. `STATE` tells the two kinds
// of large blocks apart: its bit is set once, while no block of the system's allocator exists, and never
// cleared. The two allocators get the caller's own arguments. A mapping is at least as large as requested,
// aligned to huge pages, hence to every alignment of a large block, and zero. A block that changes kind by
// `realloc` is allocated anew, copied up to the smaller size, and freed where it came from.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // SAFETY: the caller guarantees a valid layout.
            large(layout, || unsafe { System.alloc(layout) })
        } else {
            // SAFETY: as above.
            unsafe { Small.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // SAFETY: as above; mappings are zero.
            large(layout, || unsafe { System.alloc_zeroed(layout) })
        } else {
            // SAFETY: as above.
            unsafe { Small.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size makes a valid layout with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the caller's guarantees about block, layout and size hold for the allocator that made
            // the block.
            (false, false) => unsafe { Small.realloc(block, layout, size) },
            (true, true) if !are_mapped() => {
                // SAFETY: as above.
                unsafe { System.realloc(block, layout, size) }
            }
            (true, true) if mapped_bytes(layout.size()) == mapped_bytes(size) => block,
            // SAFETY: guaranteed by the caller.
            _ => unsafe { moved(block, layout, new) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the caller guarantees block and layout.
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
            // SAFETY: all large blocks were mapped in whole huge pages, and the caller no longer uses this
            // one.
            unsafe { huge::unmap(start, mapped_bytes(layout.size())) }
        }
    } else {
        // SAFETY: the caller's guarantees hold for the allocator that made the block. The block is counted
        // until it is freed.
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
    // SAFETY: neither layout is empty. The new block is distinct from the old one, both are at least as large
    // as what is copied, and the old one is freed only after the new one exists.
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

    /// Makes, writes, grows, shrinks and frees a block across all size limits.
    fn goes_through() {
        let of = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: no layout is empty; the block is accessed within its size and freed with its layout.
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

    /// One test, because the state belongs to the process.
    #[test]
    fn blocks_keep_what_is_in_them_and_huge_pages_wait_until_the_system_has_all_its_blocks_back() {
        goes_through();
        let layout = Layout::from_size_align(3 * FROM, 8).unwrap();
        // SAFETY: the layout is not empty, and the block is freed with it.
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
