//! Hashes many keys at once. SipHash is one long dependency chain of additions and rotations per key, so
//! sixteen keys are hashed side by side in vector registers.

use crate::cuckoo::HashWords;
use crate::isa::{AvailableIsa, Isa};
use scalebricks_types::{FlowKey, KeyHash, KeyHasher};

/// Keys of [`hash_pairs`] at most.
pub(crate) const PAIRS: usize = 16;

/// The hashes of up to [`PAIRS`] keys of two words: those of [`KeyHasher`].
///
/// Cost: with AVX-512 or AVX2 about the same for 2 keys as for 16.
#[inline]
#[allow(unsafe_code, reason = "the one place where a level of instructions is entered")]
pub(crate) fn hash_pairs(
    hasher: &KeyHasher,
    isa: AvailableIsa,
    keys: &[[u64; 2]; PAIRS],
    count: usize,
) -> [u64; PAIRS] {
    #[cfg(target_arch = "x86_64")]
    if count > 2 && isa.isa() >= Isa::Avx512 {
        // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor.
        return unsafe { avx512::siphash13(hasher.state(), &keys.each_ref()) };
    }
    #[cfg(target_arch = "x86_64")]
    if count > 2 && isa.isa() >= Isa::Avx2 {
        // SAFETY: as above.
        return unsafe { avx2::siphash13(hasher.state(), keys) };
    }
    let _ = isa;
    let mut hashes = [0; PAIRS];
    for (hash, key) in hashes.iter_mut().zip(keys).take(count) {
        *hash = hasher.hash_words(key).get();
    }
    hashes
}

/// Words that hold hashes, as hashes: for callers that get them from other languages or from files.
#[allow(unsafe_code, reason = "a slice of one type as one of another with the same layout")]
pub const fn hashes_of(words: &[u64]) -> &[KeyHash] {
    // SAFETY: `KeyHash` is `repr(transparent)` over `u64`, and every word is a hash.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

/// Hashes batches of keys. Each hash equals that of [`KeyHasher`].
#[derive(Debug, Clone, Copy)]
pub struct BatchHasher {
    hasher: KeyHasher,
    isa: Isa,
}

/// Keys hashed together, in two vectors. `SipHash` is one long dependency chain, so one vector's instructions
/// run while the other's wait.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

impl BatchHasher {
    /// A hasher that uses the best available instruction set.
    pub fn new(hasher: KeyHasher) -> Self {
        Self { hasher, isa: Isa::best() }
    }

    /// A hasher that uses this instruction set, or `None` if this processor lacks it.
    pub fn with_isa(hasher: KeyHasher, isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Self { hasher, isa })
    }

    /// Writes the hash of each key. Long keys are hashed one by one.
    ///
    /// # Panics
    /// If `hashes` is shorter than `keys`.
    #[inline]
    pub fn hash(&self, keys: &[FlowKey], hashes: &mut [KeyHash]) {
        let hashes = &mut hashes[..keys.len()];
        #[cfg(target_arch = "x86_64")]
        if self.isa >= Isa::Avx512 {
            let mut whole = keys.chunks_exact(LANES);
            let mut into = hashes.chunks_exact_mut(LANES);
            for (keys, hashes) in whole.by_ref().zip(into.by_ref()) {
                self.sixteen(keys, hashes);
            }
            let (rest, into) = (whole.remainder(), into.into_remainder());
            if rest.len() > 1 {
                let (mut padded, mut found) =
                    ([FlowKey::teid(scalebricks_types::Teid::new(0)); LANES], [KeyHash::default(); LANES]);
                padded[..rest.len()].copy_from_slice(rest);
                self.sixteen(&padded, &mut found);
                into.copy_from_slice(&found[..rest.len()]);
            } else {
                self.one_by_one(rest, into);
            }
            return;
        }
        self.one_by_one(keys, hashes);
    }

    fn one_by_one(&self, keys: &[FlowKey], hashes: &mut [KeyHash]) {
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = self.hasher.hash(key);
        }
    }

    /// Hashes sixteen keys together if all of them are short.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[allow(unsafe_code, reason = "the one place where a level of instructions is entered")]
    fn sixteen(&self, keys: &[FlowKey], hashes: &mut [KeyHash]) {
        let mut words = [&[0; 2]; LANES];
        for (words, key) in words.iter_mut().zip(keys) {
            let FlowKey::Short(key) = key else { return self.one_by_one(keys, hashes) };
            *words = key.words();
        }
        // SAFETY: `isa` is at least AVX-512, and its availability was checked when this hasher was made.
        let found = unsafe { avx512::siphash13(self.hasher.state(), &words) };
        for (hash, found) in hashes.iter_mut().zip(found) {
            *hash = KeyHash::new(found);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::LANES;
    use core::arch::x86_64::{
        __m512i, _mm512_add_epi64, _mm512_rol_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_xor_si512,
    };

    /// The four words of state, each for eight keys.
    type State = [__m512i; 4];

    /// `SipHash-1-3` of sixteen keys of two words.
    ///
    /// This code uses no `array::map` or similar function of the standard library. Those are compiled without
    /// the instructions enabled here, so a closure cannot be inlined into them, and each word would cost a
    /// call.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    pub(super) fn siphash13([a, b, c, d]: [u64; 4], keys: &[&[u64; 2]; LANES]) -> [u64; LANES] {
        const LENGTH: i64 = 16 << 56;
        let state = [all(a), all(b), all(c), all(d)];
        let mut v = [state; 2];
        compress(&mut v, load(keys, 0));
        compress(&mut v, load(keys, 1));
        compress(&mut v, [_mm512_set1_epi64(LENGTH); 2]);
        for v in &mut v {
            v[2] = _mm512_xor_si512(v[2], _mm512_set1_epi64(0xff));
        }
        for _ in 0..3 {
            rounds(&mut v);
        }
        store([folded(&v[0]), folded(&v[1])])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    fn all(word: u64) -> __m512i {
        _mm512_set1_epi64(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    fn folded(v: &State) -> __m512i {
        _mm512_xor_si512(_mm512_xor_si512(v[0], v[1]), _mm512_xor_si512(v[2], v[3]))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    fn compress(v: &mut [State; 2], words: [__m512i; 2]) {
        for (v, words) in v.iter_mut().zip(words) {
            v[3] = _mm512_xor_si512(v[3], words);
        }
        rounds(v);
        for (v, words) in v.iter_mut().zip(words) {
            v[0] = _mm512_xor_si512(v[0], words);
        }
    }

    /// One word of each key, assembled in registers. The keys were just written word by word, and a wide load
    /// of them would stall on store forwarding.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    fn load(keys: &[&[u64; 2]; LANES], at: usize) -> [__m512i; 2] {
        let word = |key: usize| keys[key][at].cast_signed();
        [
            _mm512_set_epi64(word(7), word(6), word(5), word(4), word(3), word(2), word(1), word(0)),
            _mm512_set_epi64(word(15), word(14), word(13), word(12), word(11), word(10), word(9), word(8)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    #[allow(unsafe_code, reason = "registers as their words")]
    fn store(registers: [__m512i; 2]) -> [u64; LANES] {
        // SAFETY: both are 128 bytes, and every bit pattern is a valid value.
        unsafe { core::mem::transmute(registers) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    fn rounds(v: &mut [State; 2]) {
        for [a, b, c, d] in v {
            *a = _mm512_add_epi64(*a, *b);
            *b = _mm512_xor_si512(_mm512_rol_epi64::<13>(*b), *a);
            *a = _mm512_rol_epi64::<32>(*a);
            *c = _mm512_add_epi64(*c, *d);
            *d = _mm512_xor_si512(_mm512_rol_epi64::<16>(*d), *c);
            *a = _mm512_add_epi64(*a, *d);
            *d = _mm512_xor_si512(_mm512_rol_epi64::<21>(*d), *a);
            *c = _mm512_add_epi64(*c, *b);
            *b = _mm512_xor_si512(_mm512_rol_epi64::<17>(*b), *c);
            *c = _mm512_rol_epi64::<32>(*c);
        }
    }
}

/// Without an instruction that rotates: two shifts and an OR, or a shuffle of bytes.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::PAIRS;
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_or_si256, _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_setr_epi8,
        _mm256_shuffle_epi8, _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_xor_si256,
    };

    /// Keys of a vector.
    const LANES: usize = 4;
    /// Vectors that are hashed together, so that one's instructions run while the other's wait.
    const TOGETHER: usize = 2;

    /// The four words of state, each for the keys of a vector.
    type State = [__m256i; 4];

    /// `SipHash-1-3` of sixteen keys of two words. See [`avx512`](super::avx512) on closures.
    #[target_feature(enable = "avx2")]
    #[allow(unsafe_code, reason = "registers as their words")]
    pub(super) fn siphash13(state: [u64; 4], keys: &[[u64; 2]; PAIRS]) -> [u64; PAIRS] {
        let mut hashes = [0; PAIRS];
        let (keys, _) = keys.as_chunks::<{ LANES * TOGETHER }>();
        let (into, _) = hashes.as_chunks_mut::<{ LANES * TOGETHER }>();
        for (keys, into) in keys.iter().zip(into) {
            // SAFETY: both are 64 bytes, and every bit pattern is a valid value.
            *into = unsafe {
                core::mem::transmute::<[__m256i; TOGETHER], [u64; LANES * TOGETHER]>(eight(state, keys))
            };
        }
        hashes
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight([a, b, c, d]: [u64; 4], keys: &[[u64; 2]; LANES * TOGETHER]) -> [__m256i; TOGETHER] {
        const LENGTH: i64 = 16 << 56;
        let mut v = [[all(a), all(b), all(c), all(d)]; TOGETHER];
        compress(&mut v, load(keys, 0));
        compress(&mut v, load(keys, 1));
        compress(&mut v, [_mm256_set1_epi64x(LENGTH); TOGETHER]);
        for v in &mut v {
            v[2] = _mm256_xor_si256(v[2], _mm256_set1_epi64x(0xff));
        }
        for _ in 0..3 {
            rounds(&mut v);
        }
        [folded(&v[0]), folded(&v[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn all(word: u64) -> __m256i {
        _mm256_set1_epi64x(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn folded(v: &State) -> __m256i {
        _mm256_xor_si256(_mm256_xor_si256(v[0], v[1]), _mm256_xor_si256(v[2], v[3]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn compress(v: &mut [State; TOGETHER], words: [__m256i; TOGETHER]) {
        for (v, words) in v.iter_mut().zip(words) {
            v[3] = _mm256_xor_si256(v[3], words);
        }
        rounds(v);
        for (v, words) in v.iter_mut().zip(words) {
            v[0] = _mm256_xor_si256(v[0], words);
        }
    }

    /// One word of each key, assembled in registers: see [`avx512`](super::avx512).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(keys: &[[u64; 2]; LANES * TOGETHER], at: usize) -> [__m256i; TOGETHER] {
        let word = |key: usize| keys[key][at].cast_signed();
        [
            _mm256_set_epi64x(word(3), word(2), word(1), word(0)),
            _mm256_set_epi64x(word(7), word(6), word(5), word(4)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotated<const LEFT: i32, const RIGHT: i32>(word: __m256i) -> __m256i {
        const { assert!(LEFT + RIGHT == 64, "a rotation") };
        _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotated_by_half(word: __m256i) -> __m256i {
        _mm256_shuffle_epi32::<0b10_11_00_01>(word)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotated_by_16(word: __m256i) -> __m256i {
        let bytes = _mm256_setr_epi8(
            6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13, 6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10,
            11, 12, 13,
        );
        _mm256_shuffle_epi8(word, bytes)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rounds(v: &mut [State; TOGETHER]) {
        for [a, b, c, d] in v {
            *a = _mm256_add_epi64(*a, *b);
            *b = _mm256_xor_si256(rotated::<13, 51>(*b), *a);
            *a = rotated_by_half(*a);
            *c = _mm256_add_epi64(*c, *d);
            *d = _mm256_xor_si256(rotated_by_16(*d), *c);
            *a = _mm256_add_epi64(*a, *d);
            *d = _mm256_xor_si256(rotated::<21, 43>(*d), *a);
            *c = _mm256_add_epi64(*c, *b);
            *b = _mm256_xor_si256(rotated::<17, 47>(*b), *c);
            *c = rotated_by_half(*c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::{HashSeed, Teid};

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_level_says_what_the_hasher_says(seed: u64, keys in proptest::collection::vec((any::<u64>(), 0_u8..40), 0..40)) {
            let hasher = KeyHasher::new(HashSeed::from_u64(seed));
            let keys: Vec<FlowKey> = keys.into_iter().map(|(word, kind)| match kind {
                0 => FlowKey::five_tuple_v6(u128::from(word).into(), 1.into(), 6, 1, 2),
                1..20 => FlowKey::teid(Teid::new(word as u32)),
                _ => FlowKey::five_tuple_v4((word as u32).into(), ((word >> 32) as u32).into(), kind, 3, 4),
            }).collect();
            let wanted: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key)).collect();
            for isa in crate::isa::compared() {
                let mut hashes = vec![KeyHash::default(); keys.len()];
                BatchHasher::with_isa(hasher, isa).unwrap().hash(&keys, &mut hashes);
                prop_assert_eq!(&hashes, &wanted, "{}", isa);
            }
        }

        #[test]
        fn words_are_hashes(words: Vec<u64>) {
            let wanted: Vec<KeyHash> = words.iter().copied().map(KeyHash::new).collect();
            prop_assert_eq!(hashes_of(&words), &wanted[..]);
        }

        #[test]
        fn pairs_of_words_have_the_hashes_of_keys(seed: u64, keys: [[u64; 2]; PAIRS], count in 0..=PAIRS) {
            let hasher = KeyHasher::new(HashSeed::from_u64(seed));
            for isa in crate::isa::compared() {
                let hashes = hash_pairs(&hasher, AvailableIsa::new(isa), &keys, count);
                for (key, hash) in keys.iter().zip(hashes).take(count) {
                    prop_assert_eq!(hasher.hash_words(key).get(), hash, "{}", isa);
                }
            }
        }
    }
}
