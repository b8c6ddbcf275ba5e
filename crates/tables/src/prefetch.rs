//! Prefetch: the only instruction a batched lookup needs that safe Rust does not offer.
#![allow(unsafe_code)]

/// Prefetches the cache line that holds `target`, for a read soon. A hint: it has no observable effect.
#[inline(always)]
pub fn prefetch_read<T>(target: &T) {
    prefetch(target);
}

/// Prefetches the cache line of the byte that lies `distance` bytes before a slice, for a write soon: the
/// place into which a packet will grow. The hint is valid for any slice and any distance.
#[inline(always)]
pub fn prefetch_in_front(bytes: &[u8], distance: usize) {
    prefetch(bytes.as_ptr().wrapping_sub(distance));
}

/// [`prefetch_read`] of an item of a slice, without a bounds check.
#[inline(always)]
pub(crate) fn prefetch_item<T>(items: &[T], index: usize) {
    prefetch(items.as_ptr().wrapping_add(index));
}

/// [`prefetch_item`] of the cache line with this number within the item.
#[inline(always)]
pub(crate) fn prefetch_line_of<T>(items: &[T], index: usize, line: usize) {
    prefetch(items.as_ptr().wrapping_add(index).cast::<[u8; 64]>().wrapping_add(line));
}

/// Prefetches the cache line that holds `target`, for a write soon.
#[inline(always)]
pub(crate) fn prefetch_write<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as for [`prefetch`]; processors without PREFETCHW treat it as a no-op.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(target).cast::<i8>());
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    prefetch(target);
}

/// The prefetch hint for any address.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHT0 never faults and never writes, for any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: PRFM is a hint with no architectural effect beyond the caches.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
