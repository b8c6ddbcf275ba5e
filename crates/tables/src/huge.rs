//! Zeroed memory on huge pages where the system grants them: a random access to a table of many megabytes then costs
//! one cache miss instead of a cache miss and a page walk.
#![allow(unsafe_code)]

#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod guard_pages;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The size of a huge page, and the alignment of allocations of at least one.
pub const HUGE_PAGE: usize = 2 << 20;

/// Types for which memory of all zeros is a valid value.
///
/// # Safety
/// Every byte pattern of zeros of the type's size must be a valid value of it, and the type must not need dropping.
pub unsafe trait Zeroable {}

// SAFETY: zero is a valid integer, atomic or not.
unsafe impl Zeroable for u8 {}
// SAFETY: as above.
unsafe impl Zeroable for u16 {}
// SAFETY: as above.
unsafe impl Zeroable for u32 {}
// SAFETY: as above.
unsafe impl Zeroable for u64 {}
// SAFETY: as above.
unsafe impl Zeroable for std::sync::atomic::AtomicU16 {}
// SAFETY: as above.
unsafe impl Zeroable for std::sync::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroable for std::sync::atomic::AtomicU64 {}
// SAFETY: an array is valid where its elements are.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}
// SAFETY: a wrapper of one word that is.
unsafe impl Zeroable for scalebricks_types::KeyHash {}

/// A slice of fixed length on the heap, all zeros at first. From 2 MiB on it is aligned to huge pages, and the system is
/// asked to use them (`madvise`, transparent huge pages); where it does not, nothing but speed is lost.
pub struct HugeSlice<T> {
    start: NonNull<T>,
    len: usize,
    /// From the system and not from the allocator.
    mapped: bool,
    owns: PhantomData<T>,
    /// What the memory lies between, of a test that wants it so.
    #[cfg(all(test, not(loom)))]
    guard_pages: Option<guard_pages::GuardPages>,
}

// SAFETY: it owns its elements, as a `Box<[T]>` does.
unsafe impl<T: Send> Send for HugeSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HugeSlice<T> {}

impl<T: Zeroable> HugeSlice<T> {
    /// `len` zeroed elements. Cost: writes them all. Aborts, as every allocation, if memory is out.
    ///
    /// # Panics
    /// If the slice would be larger than half the address space.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        if layout.size() == 0 {
            return Self::from_raw(NonNull::dangling(), len, false);
        }
        #[cfg(all(test, not(loom)))]
        if let Some((start, guard_pages)) = guard_pages::map(len * size_of::<T>()) {
            let mut slice = Self::from_raw(start.cast(), len, false);
            slice.guard_pages = Some(guard_pages);
            return slice;
        }
        // Zeroed here and not by the allocator: it would touch the pages before they are advised.
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        #[cfg(all(target_os = "linux", not(miri)))]
        if layout.size() >= HUGE_PAGE {
            use rustix::mm::{Advice, madvise};
            // A kernel without huge pages says no, and that is that.
            // SAFETY: the range is whole pages of memory that is ours alone, and this advice keeps contents.
            let _ = unsafe { madvise(memory.cast(), layout.size(), Advice::LinuxHugepage) };
        }
        // SAFETY: that many bytes were just allocated.
        unsafe { memory.write_bytes(0, layout.size()) };
        Self::from_raw(start, len, false)
    }

    const fn from_raw(start: NonNull<T>, len: usize, mapped: bool) -> Self {
        Self {
            start,
            len,
            mapped,
            owns: PhantomData,
            #[cfg(all(test, not(loom)))]
            guard_pages: None,
        }
    }

    /// [`Self::zeroed`] whose pages come when they are first touched, each for 0.1 to 0.2 ms if it is huge: for memory
    /// that has to be there at once and is filled bit by bit. Where the system has no such memory, as `zeroed`.
    pub fn untouched(len: usize) -> Self {
        let layout = Self::layout(len);
        #[cfg(all(test, not(loom)))]
        if guard_pages::are_wanted() {
            return Self::zeroed(len);
        }
        if layout.size() >= HUGE_PAGE
            && let Some(memory) = map(layout.size())
        {
            return Self::from_raw(memory.cast(), len, true);
        }
        Self::zeroed(len)
    }

    /// [`Self::untouched`], or `None` if the system refuses to map so much. Below 2 MiB, and where nothing can be
    /// mapped, it aborts as `untouched` does.
    pub fn try_untouched(len: usize) -> Option<Self> {
        let layout = Self::layout(len);
        let is_mapped = cfg!(all(target_os = "linux", not(miri))) && layout.size() >= HUGE_PAGE;
        #[cfg(all(test, not(loom)))]
        let is_mapped = is_mapped && !guard_pages::are_wanted();
        if is_mapped {
            return Some(Self::from_raw(map(layout.size())?.cast(), len, true));
        }
        Some(Self::zeroed(len))
    }
}

/// Fresh pages, all zeros, aligned to huge ones, which the system is asked for; `bytes` is a multiple of [`HUGE_PAGE`].
/// `None` if the system has no such memory. What it gives back is [`unmap`].
#[cfg(all(target_os = "linux", not(miri)))]
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let with_room = bytes.checked_add(HUGE_PAGE)?;
    // SAFETY: a mapping where the system likes, which touches no memory that is there.
    let all = unsafe {
        mmap_anonymous(std::ptr::null_mut(), with_room, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let all = all.ok()?.cast::<u8>();
    let before = all.align_offset(HUGE_PAGE);
    let start = all.wrapping_add(before);
    // SAFETY: the parts of the new mapping before and behind the aligned part; no other code has their addresses yet. They are whole pages,
    // because the mapping begins with one and a huge page is many. Should the system keep them, address space is lost.
    unsafe {
        if before > 0 {
            let _ = munmap(all.cast(), before);
        }
        if before < HUGE_PAGE {
            let _ = munmap(start.wrapping_add(bytes).cast(), HUGE_PAGE - before);
        }
        // A kernel without huge pages says no, and that is that.
        let _ = madvise(start.cast(), bytes, Advice::LinuxHugepage);
    }
    NonNull::new(start)
}

/// No such memory here: see the one for Linux.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Gives back what [`map`] gave.
///
/// # Safety
/// `start` and `bytes` are those of a call of [`map`], and nothing uses the memory any more.
#[cfg(all(target_os = "linux", not(miri)))]
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller promises. It fails only for ranges that are no mapping.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
}

/// Nothing was mapped: see the one for Linux.
///
/// # Safety
/// Never called, as [`map`] gives nothing.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub unsafe fn unmap(_: NonNull<u8>, _: usize) {
    unreachable!("nothing is mapped here")
}

/// Asks the system for huge pages for the room of a vector: the whole huge pages within it. Pages that were touched before
/// stay small.
pub(crate) fn advise<T>(items: &Vec<T>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let (start, bytes) = (items.as_ptr().cast::<u8>(), items.capacity().saturating_mul(size_of::<T>()));
        let before = start.align_offset(HUGE_PAGE);
        if size_of::<T>() > 0 && bytes >= before.saturating_add(HUGE_PAGE) {
            // A kernel without huge pages says no, and that is that.
            // SAFETY: the range is whole pages within the vector's memory, and this advice keeps contents.
            let _ = unsafe {
                let pages = start.wrapping_add(before).cast_mut();
                madvise(pages.cast(), (bytes - before) / HUGE_PAGE * HUGE_PAGE, Advice::LinuxHugepage)
            };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = items;
}

impl<T> HugeSlice<T> {
    /// Whole huge pages from 2 MiB on, so that no page is shared with anyone.
    fn layout(len: usize) -> Layout {
        let plain = Layout::array::<T>(len);
        let layout = plain.and_then(|plain| {
            if plain.size() < HUGE_PAGE {
                plain.align_to(64)
            } else {
                Layout::from_size_align(plain.size().next_multiple_of(HUGE_PAGE), HUGE_PAGE)
            }
        });
        match layout {
            Ok(layout) => layout,
            Err(_) => capacity_overflow(),
        }
    }
}

/// What `Vec` does in the same case.
#[expect(clippy::panic, reason = "documented; no caller can go on without the memory")]
fn capacity_overflow() -> ! {
    panic!("capacity overflow")
}

impl<T> Drop for HugeSlice<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        #[cfg(all(test, not(loom)))]
        if self.guard_pages.is_some() {
            return; // they take it with them
        }
        if self.mapped {
            // SAFETY: mapped in `untouched` with this very size; the elements need no dropping (`Zeroable`).
            unsafe { unmap(self.start.cast(), layout.size()) };
        } else if layout.size() > 0 {
            // SAFETY: allocated in `zeroed` with this very layout; the elements need no dropping (`Zeroable`).
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T> Deref for HugeSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` valid elements from `start` on, ours as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for HugeSlice<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable + Copy> FromIterator<T> for HugeSlice<T> {
    /// Collects first, to know the length.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let mut slice = Self::zeroed(items.len());
        slice.copy_from_slice(&items);
        slice
    }
}

impl<T> std::fmt::Debug for HugeSlice<T> {
    /// The length only: there may be millions.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HugeSlice").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_slices_are_zeroed_aligned_and_writable() {
        let lens = [0, 1, 7, 1000, if cfg!(miri) { 1 } else { 300_000 }];
        for mut slice in lens.map(HugeSlice::<u64>::zeroed).into_iter().chain(lens.map(HugeSlice::untouched))
        {
            let len = slice.len();
            assert!(slice.iter().all(|&word| word == 0));
            assert!(len == 0 || slice.as_ptr().cast::<u8>().align_offset(64) == 0);
            slice.iter_mut().zip(1..).for_each(|(word, n)| *word = n);
            assert_eq!(slice.iter().sum::<u64>(), (len as u64) * (len as u64 + 1) / 2);
        }
        assert!(cfg!(miri) || HugeSlice::<u64>::try_untouched(1 << 47).is_none(), "2^50 bytes");
        assert_eq!(HugeSlice::<u64>::try_untouched(9).as_deref(), Some(&[0; 9][..]));
        assert!(
            cfg!(miri)
                || HugeSlice::<u64>::try_untouched(300_000).is_some_and(|slice| slice.len() == 300_000)
        );
        let mut items: Vec<u64> = Vec::with_capacity(lens[3] + 1);
        advise(&items);
        items.extend(0..lens[3] as u64);
        assert!(items.iter().zip(0..).all(|(&item, n)| item == n));
        advise(&vec![(); 3]);
        let collected: HugeSlice<u32> = (0..5).collect();
        assert_eq!(*collected, [0, 1, 2, 3, 4]);
    }
}
