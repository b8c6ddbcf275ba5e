//! Distinct names of several kinds from linear-feedback shift registers, as in the Concise paper.
//!
//! Generating names needs no memory and very little time, so a table of any size can be queried for names
//! that are in no cache. All names are distinct by construction. The time to generate them is measured
//! separately, by a loop over the iterator alone.
//!
//! | kind | bytes | names before they repeat | source |
//! |---|---|---|---|
//! | [`macs`] | 6 | 2^48 − 1 | the register |
//! | [`ipv4s`] | 4 | 2^32 − 1 | the register |
//! | [`ipv6s`] | 16 | 2^128 − 1 | the register |
//! | [`headers`] | 32 | 2^128 − 1 | addresses and a port from one register, other fields from a second |
//! | [`files`] | 25 to 80 | 2^32 − 1 | the register selects words, four bits each |
//!
//! Each state is the previous one shifted by a bit, so consecutive names are similar. That does not matter
//! with a good hash, but a table that used bits of names as its hash would be affected.

pub mod files;
pub mod lfsr;
pub mod population;
pub mod zipf;

use crate::keys::mix;
use lfsr::{IPV4, IPV6, Lfsr, MAC, STRING};
use scalebricks_types::KeyHash;
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;

/// Hashes names of any kind with SipHash-1-3.
#[derive(Debug, Clone, Copy)]
pub struct NameHasher(SipHasher13);

impl NameHasher {
    /// A hasher with this seed.
    pub fn new(seed: u64) -> Self {
        Self(SipHasher13::new_with_keys(seed, !seed))
    }

    /// The hash of a name.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> KeyHash {
        let mut hasher = self.0;
        hasher.write(name);
        KeyHash::new(hasher.finish())
    }
}

/// MAC addresses.
pub fn macs(start: u128) -> impl Iterator<Item = [u8; 6]> + Clone {
    Lfsr::<u64>::new(MAC, start).map(|state| {
        let [_, _, address @ ..] = state.to_be_bytes();
        address
    })
}

/// MAC addresses as numbers.
pub fn mac_numbers(start: u128) -> Lfsr<u64> {
    Lfsr::new(MAC, start)
}

/// Hashes a MAC address as a number by an unkeyed bijection. Sufficient for a switch that need not fear
/// forged addresses, and as cheap as the paper's CRC.
#[inline(always)]
pub const fn mixed(address: u64) -> KeyHash {
    KeyHash::new(mix(address))
}

/// IPv4 addresses.
pub fn ipv4s(start: u128) -> impl Iterator<Item = [u8; 4]> + Clone {
    Lfsr::<u32>::new(IPV4, start).map(u32::to_be_bytes)
}

/// IPv6 addresses.
pub fn ipv6s(start: u128) -> impl Iterator<Item = [u8; 16]> + Clone {
    Lfsr::<u128>::new(IPV6, start).map(u128::to_be_bytes)
}

/// Headers of TCP and UDP packets over IPv4, as `OpenFlow` 1.0 matches them.
pub fn headers(start: u128) -> impl Iterator<Item = [u64; 4]> + Clone {
    let others = Lfsr::<u64>::new(STRING, !start);
    Lfsr::<u128>::new(IPV6, start).zip(others).map(|(state, other)| {
        let protocol = if other & 64 == 0 { 6 } else { 17 };
        [
            (other >> 16) << 16 | (other & 63),    // Ethernet source, ingress port
            ((state >> 80) as u64) << 16 | 0x0800, // Ethernet destination, EtherType
            (state >> 16) as u64,                  // IPv4 source and destination
            (state as u64) << 48 | (other >> 8 & 0xFF) << 32 | protocol << 9, // ports, IP protocol
        ]
    })
}

/// The bytes of a header as a name.
pub fn header_bytes(words: &[u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::Hash;

    /// More than the states of a 16-bit register, so that a short register would repeat.
    const MANY: usize = if cfg!(miri) { 300 } else { 200_000 };

    fn assert_all_differ<T: Eq + Hash>(names: impl Iterator<Item = T>) {
        assert_eq!(names.take(MANY).collect::<HashSet<T>>().len(), MANY);
    }

    #[test]
    fn no_name_comes_twice() {
        for start in [0, 1, 0xDEAD_BEEF_0123_4567_89AB_CDEF_1357_9BDF] {
            assert_all_differ(macs(start));
            assert_all_differ(ipv4s(start));
            assert_all_differ(ipv6s(start));
            assert_all_differ(headers(start));
        }
    }

    #[test]
    fn the_register_of_a_header_can_be_read_off() {
        for (words, state) in headers(9).zip(Lfsr::<u128>::new(IPV6, 9)).take(1000) {
            let read =
                u128::from(words[1] >> 16) << 80 | u128::from(words[2]) << 16 | u128::from(words[3] >> 48);
            assert_eq!(read, state);
        }
    }

    #[test]
    fn hashes_differ_where_names_do() {
        let hasher = NameHasher::new(1);
        assert_all_differ(macs(1).map(|name| hasher.hash(&name)));
        assert_all_differ(headers(1).map(|words| hasher.hash(&header_bytes(&words))));
        assert_ne!(hasher.hash(b"a"), NameHasher::new(2).hash(b"a"));
    }
}
