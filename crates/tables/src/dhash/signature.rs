//! Signatures: 32 bits of a session, which stand for it in the table. Those of the paper, and a keyed one.
//!
//! | [`Signature`] | formula | false positives |
//! |---|---|---|
//! | `Keyed` (default) | lower half of the keyed hash | (slots compared) / 2^32 |
//! | `Xor` (1) | source address ^ destination address ^ source port ^ destination port | depends on the addresses; 0.18 % in the paper |
//! | `CrcOfXor` (2) | CRC((source ^ destination address) \| (source ^ destination port)) | as above; 0.10 % |
//! | `MirroredCrc` (3) | CRC(s \| d \| p) ^ CRC(d \| s \| p), p = source ^ destination port | as above; 0.33 %: the ports cancel |
//! | `TwoHalves` (4) | upper halves of CRC(s \| d \| sp \| dp) and CRC(d \| s \| dp \| sp) | 0 in the paper |
//! | `TwoHalvesCanonical` | the smaller of 4 and 4 with its halves exchanged | one bit less than 4 |
//!
//! `s`, `d`: addresses, `sp`, `dp`: ports, all in network byte order; `|` joins. The paper's functions use neither
//! protocol nor zone: sessions that differ only there share a signature, and the record tells them apart.
//!
//! The text of signature 3 lost words. The form here is the literal reading: a second term with the addresses
//! exchanged. CRC is linear, so both terms contain the same share of p, and it cancels: the signature depends only on
//! the XOR of the addresses. This explains why the paper measured the most false positives for it. Do not use it.
//!
//! The CRC starts with 0 and is not inverted. The paper does not say how it starts. Another start would change all
//! signatures of 1 and 2 by a constant, and no number of collisions.
//!
//! Anyone who knows the paper's functions can make sessions with equal signatures. Such sessions share no bucket
//! (the bucket comes from the keyed hash), so that costs a false positive only within a bucket.
//!
//! Source: DHash, the section on signatures and its Table IV; the readings are in `docs/adr/0047-dhash-table.md`.
#![allow(unsafe_code, reason = "the one place where a level of instructions is entered")]

use super::crc32c::{Crc, Table};
use super::key::{FlowKey, HashIsa};
use crate::cuckoo::HashWords;
use crate::hashing::PAIRS;
use crate::isa::{AvailableIsa, Isa};
use scalebricks_types::mix::mix64;
use scalebricks_types::{HashSeed, KeyHasher};
use std::ops::BitXor;

/// In place of a computed 0, which marks an empty slot. It equals itself with its halves exchanged, so the reverse
/// direction of a session with signature 4 finds it too.
pub const INSTEAD_OF_ZERO: u32 = 0x0001_0001;

/// A function from sessions to signatures. See [`dhash`](crate::dhash).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Signature {
    /// Ours: keyed, so nobody without the secret can aim at a signature.
    #[default]
    Keyed,
    /// Signature 1 of the paper.
    Xor,
    /// Signature 2 of the paper.
    CrcOfXor,
    /// Signature 3 of the paper, read literally. Only for comparison.
    MirroredCrc,
    /// Signature 4 of the paper. The two directions of a session have different signatures, and a lookup compares
    /// a bucket with both.
    TwoHalves,
    /// The smaller of the two forms of signature 4: symmetric.
    TwoHalvesCanonical,
}

impl Signature {
    /// All functions; the default is first.
    pub const ALL: [Self; 6] = [
        Self::Keyed,
        Self::Xor,
        Self::CrcOfXor,
        Self::MirroredCrc,
        Self::TwoHalves,
        Self::TwoHalvesCanonical,
    ];

    /// The name that the command line and the measurements use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Xor => "xor",
            Self::CrcOfXor => "crc-of-xor",
            Self::MirroredCrc => "mirrored-crc",
            Self::TwoHalves => "two-halves",
            Self::TwoHalvesCanonical => "two-halves-canonical",
        }
    }

    /// Whether the two directions of a session have the same signature.
    pub const fn is_symmetric(self) -> bool {
        !matches!(self, Self::TwoHalves)
    }
}

/// Addresses that signatures can be computed of.
pub trait Address: Copy + Ord + BitXor<Output = Self> {
    /// The XOR of its 32-bit words.
    fn folded(self) -> u32;

    /// The CRC of its bytes in network order, after `crc`.
    #[doc(hidden)]
    fn crc<C: Crc>(self, crc: u32) -> u32;
}

impl Address for u32 {
    #[inline(always)]
    fn folded(self) -> u32 {
        self
    }

    #[inline(always)]
    fn crc<C: Crc>(self, crc: u32) -> u32 {
        C::u32(crc, self.swap_bytes())
    }
}

impl Address for u128 {
    #[inline(always)]
    fn folded(self) -> u32 {
        let halves = (self >> 64) as u64 ^ self as u64;
        (halves >> 32) as u32 ^ halves as u32
    }

    #[inline(always)]
    fn crc<C: Crc>(self, crc: u32) -> u32 {
        C::u64(C::u64(crc, ((self >> 64) as u64).swap_bytes()), (self as u64).swap_bytes())
    }
}

/// What a table needs to know of a session: computed once per packet, equal for both directions (but for the order
/// of the halves of [`Signature::TwoHalves`]).
///
/// The bits for the bucket, the signature and the choice of a pipeline are independent of each other: the first two
/// are the halves of a 64-bit keyed hash, the third is its upper half after mixing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlowHash {
    word: u64,
    signature: u32,
}

impl FlowHash {
    /// A hash from parts computed elsewhere: a keyed 64-bit hash that is equal for both directions, and a signature.
    /// A signature of 0 becomes [`INSTEAD_OF_ZERO`]. Tests make colliding keys with this.
    pub const fn from_parts(word: u64, signature: u32) -> Self {
        Self { word, signature: if signature == 0 { INSTEAD_OF_ZERO } else { signature } }
    }

    /// The bits that choose the bucket.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        (self.word >> 32) as u32
    }

    /// The keyed hash: its upper half chooses the bucket. For other tables with the same sessions.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.word
    }

    /// The signature: never 0.
    #[inline(always)]
    pub const fn signature(self) -> u32 {
        self.signature
    }

    /// One of `pipelines` numbers, from bits that are independent of bucket and signature; 0 if there are none. Both
    /// directions of a session get the same number.
    #[inline(always)]
    pub const fn pipeline(self, pipelines: u32) -> u32 {
        (((mix64(self.word) >> 32) * pipelines as u64) >> 32) as u32
    }

    /// The slot where a search starts, the paper's major location. It is the signature modulo 16, or for signature 4
    /// the XOR of the lowest four bits of its halves, which is equal for both directions.
    #[inline(always)]
    pub(super) const fn start(self, symmetric: bool) -> u32 {
        let signature = if symmetric { self.signature } else { self.signature ^ self.signature >> 16 };
        signature & 0xF
    }
}

/// Computes the hash of sessions: a function and a secret.
#[derive(Debug, Clone, Copy)]
pub struct FlowHasher {
    signature: Signature,
    hasher: KeyHasher,
    isa: HashIsa,
}

impl FlowHasher {
    /// A hasher with this function and this secret. The bucket is keyed with all functions, because the paper leaves
    /// its choice open.
    pub fn new(signature: Signature, secret: HashSeed) -> Self {
        Self::with_isa(signature, secret, Isa::best())
    }

    pub(super) fn with_isa(signature: Signature, secret: HashSeed, isa: Isa) -> Self {
        Self { signature, hasher: KeyHasher::new(secret), isa: HashIsa(AvailableIsa::new(isa)) }
    }

    /// Its function.
    pub const fn signature(&self) -> Signature {
        self.signature
    }

    /// The hash of a packet's session. Cost: one `SipHash` of 16 or 40 bytes, for the paper's functions also up to
    /// two CRCs; no memory but the key.
    #[inline(always)]
    pub fn hash<K: FlowKey>(&self, key: &K) -> FlowHash {
        self.with_word(key, key.keyed_hash(&self.hasher))
    }

    /// Writes the hash of each packet's session: those of [`Self::hash`].
    ///
    /// Cost: IPv4 keys are hashed sixteen at a time in vector registers.
    ///
    /// # Panics
    /// If `hashes` is shorter than `keys`.
    #[inline]
    pub fn hash_batch<K: FlowKey>(&self, keys: &[K], hashes: &mut [FlowHash]) {
        let hashes = &mut hashes[..keys.len()];
        for (keys, hashes) in keys.chunks(PAIRS).zip(hashes.chunks_mut(PAIRS)) {
            let words = K::keyed_hashes(keys, &self.hasher, self.isa);
            for ((key, hash), word) in keys.iter().zip(hashes).zip(words) {
                *hash = self.with_word(key, word);
            }
        }
    }

    #[inline(always)]
    fn with_word<K: FlowKey>(&self, key: &K, word: u64) -> FlowHash {
        let signature = match self.signature {
            Signature::Keyed => word as u32, // the lower half
            other => self.of_the_paper(other, key),
        };
        FlowHash::from_parts(word, signature)
    }

    fn of_the_paper<K: FlowKey>(&self, function: Signature, key: &K) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if self.isa.0.isa() >= Isa::Avx2 {
            // SAFETY: the processor has AVX2, which includes SSE 4.2.
            return unsafe { with_instruction(function, key) };
        }
        compute::<K, Table>(function, key)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn with_instruction<K: FlowKey>(function: Signature, key: &K) -> u32 {
    compute::<K, super::crc32c::Instruction>(function, key)
}

/// A signature of the paper; may be 0.
#[inline(always)]
fn compute<K: FlowKey, C: Crc>(function: Signature, key: &K) -> u32 {
    let (s, d) = (key.source(), key.destination());
    let (sp, dp) = (key.source_port(), key.destination_port());
    let port = |crc: u32, port: u16| C::u16(crc, port.swap_bytes());
    match function {
        Signature::Keyed => 0,
        Signature::Xor => s.folded() ^ d.folded() ^ u32::from(sp ^ dp),
        Signature::CrcOfXor => port((s ^ d).crc::<C>(0), sp ^ dp),
        Signature::MirroredCrc => {
            port(d.crc::<C>(s.crc::<C>(0)), sp ^ dp) ^ port(s.crc::<C>(d.crc::<C>(0)), sp ^ dp)
        }
        Signature::TwoHalves | Signature::TwoHalvesCanonical => {
            let forward = port(port(d.crc::<C>(s.crc::<C>(0)), sp), dp);
            let reverse = port(port(s.crc::<C>(d.crc::<C>(0)), dp), sp);
            let joined = forward & 0xFFFF_0000 | reverse >> 16;
            if function == Signature::TwoHalves { joined } else { joined.min(joined.rotate_left(16)) }
        }
    }
}

/// The keyed hash of two words.
#[inline(always)]
pub(super) fn keyed_pair(hasher: &KeyHasher, words: [u64; 2]) -> u64 {
    HashWords::<2>::hash_words(hasher, &words).get()
}

/// The keyed hash of five words.
#[inline(always)]
pub(super) fn keyed_quintet(hasher: &KeyHasher, words: [u64; 5]) -> u64 {
    HashWords::<5>::hash_words(hasher, &words).get()
}
