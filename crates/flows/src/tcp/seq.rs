//! Comparison of sequence numbers, which wrap (RFC 9293 §3.4): of two numbers, the one less than 2^31 ahead is later.

/// Octets from `b` to `a`; negative if `a` is earlier.
#[inline]
pub(crate) const fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

/// Whether `a` is later than `b`.
#[inline]
pub(crate) const fn is_after(a: u32, b: u32) -> bool {
    distance(a, b) > 0
}

/// The later of two numbers.
#[inline]
pub(crate) const fn later(a: u32, b: u32) -> u32 {
    if is_after(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        assert!(is_after(3, u32::MAX - 3));
        assert!(!is_after(u32::MAX - 3, 3));
        assert!(!is_after(7, 7));
        assert_eq!(later(3, u32::MAX), 3);
        assert_eq!(distance(3, u32::MAX - 3), 7);
    }
}
