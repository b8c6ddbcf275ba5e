//! HMAC-SHA1-96 (RFC 2404) of two packets at a time.
//!
//! A processor's SHA-1 instructions have long latencies, and each block of a message waits for the one before. Compressing
//! a block of one message and then a block of another lets the processor do both at once: 0.6 of the time was seen on
//! Zen 3. The compression function is that of the `sha1` crate; this module adds the padding of SHA-1 and HMAC (RFC 2104).

use sha1::digest::generic_array::GenericArray;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Octets of a block of SHA-1.
const BLOCK: usize = 64;
/// Octets of its output, and of a key of HMAC-SHA1-96.
const OUTPUT: usize = 20;
/// Octets of the ICV.
pub(super) const ICV: usize = 12;
/// The initial value (FIPS 180-4 §5.3.1).
const INITIAL: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

type State = [u32; 5];
type Block = [u8; BLOCK];

/// A key, as what SHA-1 makes of its inner and its outer block.
pub(super) struct HmacSha1 {
    inner: State,
    outer: State,
}

impl Drop for HmacSha1 {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// What is authenticated: these octets, and four more with ESN.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) octets: &'a [u8],
    pub(super) high: Option<[u8; 4]>,
}

#[inline(always)]
fn compress(state: &mut State, block: &Block) {
    sha1::compress(state, std::slice::from_ref(GenericArray::from_slice(block)));
}

/// Compresses the blocks of messages in turns.
#[inline]
fn compress_all<const N: usize>(states: &mut [State; N], messages: [&[Block]; N]) {
    let shortest = messages.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    let (common, rests) =
        (messages.map(|blocks| &blocks[..shortest]), messages.map(|blocks| &blocks[shortest..]));
    for at in 0..shortest {
        for (state, blocks) in states.iter_mut().zip(common) {
            compress(state, &blocks[at]);
        }
    }
    for (state, blocks) in states.iter_mut().zip(rests) {
        for block in blocks {
            compress(state, block);
        }
    }
}

/// The end of a message with SHA-1's padding, one block or two.
struct End {
    octets: [u8; 2 * BLOCK],
    blocks: usize,
}

impl End {
    /// `octets` are fewer than a block, and the last of `total` octets that follow the key's block.
    #[inline]
    fn new(octets: &[u8], high: Option<[u8; 4]>, total: usize) -> Self {
        let mut padded = [0; 2 * BLOCK];
        let high = high.as_ref().map_or(&[][..], |high| &high[..]);
        let end = octets.len() + high.len();
        padded[..octets.len()].copy_from_slice(octets);
        padded[octets.len()..end].copy_from_slice(high);
        padded[end] = 0x80;
        let blocks = if end + 9 <= BLOCK { 1 } else { 2 };
        let bits = (BLOCK + total + high.len()) as u64 * 8;
        padded[blocks * BLOCK - 8..blocks * BLOCK].copy_from_slice(&bits.to_be_bytes());
        Self { octets: padded, blocks }
    }

    #[inline]
    fn blocks(&self) -> &[Block] {
        &self.octets.as_chunks().0[..self.blocks]
    }
}

impl HmacSha1 {
    pub(super) fn new(key: &[u8; OUTPUT]) -> Self {
        let state = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
            let mut state = INITIAL;
            compress(&mut state, &block);
            block.zeroize();
            state
        };
        Self { inner: state(0x36), outer: state(0x5c) }
    }

    /// The ICVs of messages, computed side by side: two are faster than twice one, more are not.
    #[inline]
    pub(super) fn icvs<const N: usize>(&self, messages: [Message<'_>; N]) -> [[u8; ICV]; N] {
        let mut states = [self.inner; N];
        let whole = messages.map(|message| message.octets.as_chunks().0);
        compress_all(&mut states, whole);
        let ends = messages
            .map(|Message { octets, high }| End::new(octets.as_chunks::<BLOCK>().1, high, octets.len()));
        compress_all(&mut states, ends.each_ref().map(End::blocks));
        let ends = states.map(|state| End::new(&octets(state), None, OUTPUT));
        states = [self.outer; N];
        compress_all(&mut states, ends.each_ref().map(End::blocks));
        states.map(|state| {
            let mut icv = [0; ICV];
            icv.copy_from_slice(&octets(state)[..ICV]);
            icv
        })
    }
}

#[inline]
fn octets(state: State) -> [u8; OUTPUT] {
    let mut octets = [0; OUTPUT];
    for (to, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *to = word.to_be_bytes();
    }
    octets
}

/// Compares ICVs in a time that does not depend on them.
#[inline]
pub(super) fn is_equal(one: &[u8; ICV], other: &[u8; ICV]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::{Hmac, Mac};
    use proptest::prelude::*;
    use sha1::Sha1;

    fn message() -> impl Strategy<Value = (Vec<u8>, Option<[u8; 4]>)> {
        (prop::collection::vec(any::<u8>(), 0..300), any::<Option<[u8; 4]>>())
    }

    proptest! {
        /// The ICV is that of the `hmac` crate, alone and beside another message.
        #[test]
        fn two_at_a_time_are_as_one_by_one(key: [u8; OUTPUT], one in message(), two in message()) {
            let hmac = HmacSha1::new(&key);
            let expected = [&one, &two].map(|(octets, high)| {
                let mut mac = <Hmac<Sha1> as Mac>::new_from_slice(&key).unwrap();
                mac.update(octets);
                mac.update(high.as_ref().map_or(&[], |high| &high[..]));
                mac.finalize().into_bytes()[..ICV].to_vec()
            });
            let messages = [&one, &two].map(|(octets, high)| Message { octets, high: *high });
            prop_assert_eq!(hmac.icvs(messages).map(|icv| icv.to_vec()), expected.clone());
            prop_assert_eq!(hmac.icvs([messages[0]])[0].to_vec(), expected[0].clone());
        }
    }

    /// RFC 2202 §3, test case 5.
    #[test]
    fn the_icv_is_that_of_rfc_2202() {
        let icvs =
            HmacSha1::new(&[0x0c; OUTPUT]).icvs([Message { octets: b"Test With Truncation", high: None }]);
        assert_eq!(icvs, [[0x4c, 0x1a, 0x03, 0x42, 0x4b, 0x55, 0xe0, 0x7f, 0xe7, 0xf2, 0x7b, 0xe1]]);
        assert!(is_equal(&icvs[0], &icvs[0]) && !is_equal(&icvs[0], &[0; ICV]));
    }
}
