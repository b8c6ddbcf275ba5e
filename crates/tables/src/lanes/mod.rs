//! Lookup kernels' vectors: assembled from lanes, and taken apart into lanes.
//!
//! A load can take its data from an earlier store that is not in the cache yet, if that store has all of it. Else it waits
//! until the store is in the cache, for which all instructions before the store must be done: also loads of cache lines that
//! are far away. So lanes must not be stored one by one and loaded as a vector: [`vector!`] and `filled` assemble vectors in
//! registers. The other way, a vector stored and its lanes loaded, is fine; `Lanes` keeps the store within a cache line, because
//! lanes of one that crosses two took a third longer on a Zen 5.

pub(crate) mod avx2;
pub(crate) mod avx512;

/// A vector of sixteen lanes assembled lane by lane in registers, from an expression for the lane with number `$i`. It is a macro,
/// because the compiler does not always inline a function that calls another one for each lane.
macro_rules! vector {
    (|$i:ident| $lane:expr) => {
        $crate::lanes::vector!(@ _mm512_setr_epi32 $i $lane; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $set:ident $i:ident $lane:expr; $($number:literal)*) => {
        std::arch::x86_64::$set($({
            let $i: usize = $number;
            $lane.cast_signed()
        }),*)
    };
}
pub(crate) use vector;

/// The same of eight 64-bit lanes.
macro_rules! vector64 {
    (|$i:ident| $lane:expr) => {
        $crate::lanes::vector!(@ _mm512_setr_epi64 $i $lane; 0 1 2 3 4 5 6 7)
    };
}
pub(crate) use vector64;

/// The same of eight lanes, with AVX2.
macro_rules! vector_avx2 {
    (|$i:ident| $lane:expr) => {
        $crate::lanes::vector!(@ _mm256_setr_epi32 $i $lane; 0 1 2 3 4 5 6 7)
    };
}
pub(crate) use vector_avx2;

/// The same of four 64-bit lanes, with AVX2.
macro_rules! vector64_avx2 {
    (|$i:ident| $lane:expr) => {
        $crate::lanes::vector!(@ _mm256_setr_epi64x $i $lane; 0 1 2 3)
    };
}
pub(crate) use vector64_avx2;
