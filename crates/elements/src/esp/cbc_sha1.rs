//! AES-128-CBC with HMAC-SHA1-96 of several packets at once.
//!
//! CBC encrypts a block only after the one before, so one packet leaves most of the AES unit idle. Eight packets are
//! encrypted side by side: each step takes one block of each, with the eight-block function of the `aes` crate. Decryption
//! needs no other packets, since its blocks do not wait for each other. Both hash [two packets](super::hmac_sha1) at a time.

use super::hmac_sha1::{HmacSha1, ICV, Message, is_equal};
use super::sa::Secret;
use super::suite::{CipherError, Work, high};
use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockDecryptMut, BlockEncrypt, InnerIvInit, KeyInit};
use aes::{Aes128Dec, Aes128Enc, Block};
use scalebricks_wire::esp::HEADER_LEN;

/// Octets of a block of AES.
const BLOCK: usize = 16;
/// Packets that are encrypted side by side: the blocks that the `aes` crate encrypts at once.
const LANES: usize = 8;

/// Keys, prepared for use.
pub struct CbcSha1 {
    encrypts: Aes128Enc,
    decrypts: Aes128Dec,
    hmac: HmacSha1,
}

/// A packet's parts.
struct Parts<'a> {
    iv: &'a [u8; BLOCK],
    blocks: &'a mut [[u8; BLOCK]],
}

/// The parts of a packet that is long enough and padded.
#[inline]
fn parts(esp: &mut [u8]) -> Option<Parts<'_>> {
    let (covered, _) = esp.split_last_chunk_mut::<ICV>()?;
    let (iv, text) = covered.get_mut(HEADER_LEN..)?.split_first_chunk_mut::<BLOCK>()?;
    let (blocks, rest) = text.as_chunks_mut();
    rest.is_empty().then_some(Parts { iv, blocks })
}

#[inline]
fn message<'a>(work: &'a Work<'_>, is_extended: bool) -> Message<'a> {
    let octets = work.esp.split_last_chunk::<ICV>().map_or(&[][..], |(covered, _)| covered);
    Message { octets, high: is_extended.then(|| high(work.sequence)) }
}

impl CbcSha1 {
    pub(super) fn new(key: &Secret<16>, auth_key: &Secret<20>) -> Self {
        let key = (&*key.0).into();
        let (encrypts, decrypts) = (Aes128Enc::new(key), Aes128Dec::new(key));
        Self { encrypts, decrypts, hmac: HmacSha1::new(&auth_key.0) }
    }

    /// As [`Cipher::seal_many`](super::suite::Cipher::seal_many).
    pub(super) fn seal_many(&self, works: &mut [Work<'_>], is_extended: bool) {
        let texts = works.iter_mut().filter_map(|work| {
            let parts = parts(work.esp);
            work.result = if parts.is_some() { Ok(()) } else { Err(CipherError) };
            parts
        });
        self.encrypt(texts);
        self.each_icv(works, is_extended, |work, computed| {
            if let Some((_, icv)) = work.esp.split_last_chunk_mut() {
                *icv = computed;
            }
        });
    }

    /// As [`Cipher::open_many`](super::suite::Cipher::open_many).
    pub(super) fn open_many(&self, works: &mut [Work<'_>], is_extended: bool) {
        for work in works.iter_mut() {
            work.result = if parts(work.esp).is_some() { Ok(()) } else { Err(CipherError) };
        }
        self.each_icv(works, is_extended, |work, computed| {
            let is_authentic = work.esp.split_last_chunk().is_some_and(|(_, icv)| is_equal(icv, &computed));
            work.result = if is_authentic { Ok(()) } else { Err(CipherError) };
        });
        for work in works.iter_mut().filter(|work| work.result.is_ok()) {
            let Some(Parts { iv, blocks }) = parts(work.esp) else { continue };
            let cbc = cbc::Decryptor::<&Aes128Dec>::inner_iv_init(&self.decrypts, iv.into());
            work.result = cbc
                .decrypt_padded_mut::<NoPadding>(blocks.as_flattened_mut())
                .map(|_| ())
                .map_err(|_| CipherError);
        }
    }

    /// Computes the ICVs of packets that have no error yet.
    #[inline]
    fn each_icv(
        &self,
        works: &mut [Work<'_>],
        is_extended: bool,
        mut done: impl FnMut(&mut Work<'_>, [u8; ICV]),
    ) {
        let mut good = works.iter_mut().filter(|work| work.result.is_ok());
        while let Some(one) = good.next() {
            if let Some(two) = good.next() {
                let [first, second] = self.hmac.icvs([message(one, is_extended), message(two, is_extended)]);
                done(one, first);
                done(two, second);
            } else {
                let [icv] = self.hmac.icvs([message(one, is_extended)]);
                done(one, icv);
            }
        }
    }

    /// Encrypts texts in lanes. A lane whose text is done gets the next one.
    #[inline]
    fn encrypt<'a>(&self, mut texts: impl Iterator<Item = Parts<'a>>) {
        // The last ciphertext of each lane, and its blocks that are not yet encrypted.
        let mut chains = [Block::default(); LANES];
        let mut left: [&'a mut [[u8; BLOCK]]; LANES] = Default::default();
        loop {
            let (mut steps, mut busy) = (usize::MAX, 0);
            for (chain, blocks) in chains.iter_mut().zip(&mut left) {
                if blocks.is_empty()
                    && let Some(next) = texts.find(|next| !next.blocks.is_empty())
                {
                    (*chain, *blocks) = ((*next.iv).into(), next.blocks);
                }
                if !blocks.is_empty() {
                    (steps, busy) = (steps.min(blocks.len()), busy + 1);
                }
            }
            if busy == 0 {
                return;
            }
            let mut now: [&mut [[u8; BLOCK]]; LANES] = Default::default();
            for (now, left) in now.iter_mut().zip(&mut left) {
                let blocks = std::mem::take(left);
                (*now, *left) = blocks.split_at_mut(steps.min(blocks.len()));
            }
            if busy > 1 {
                self.step(steps, now, &mut chains);
                continue;
            }
            // One block at a time is faster than eight of which seven are for nothing.
            for (chain, blocks) in chains.iter_mut().zip(now) {
                for block in blocks {
                    mix(chain, block);
                    self.encrypts.encrypt_block(chain);
                    *block = (*chain).into();
                }
            }
        }
    }

    /// Encrypts the same number of blocks of each lane that has any.
    #[inline]
    fn step(&self, steps: usize, mut lanes: [&mut [[u8; BLOCK]]; LANES], chains: &mut [Block; LANES]) {
        for at in 0..steps {
            for (chain, blocks) in chains.iter_mut().zip(&lanes) {
                if let Some(block) = blocks.get(at) {
                    mix(chain, block);
                }
            }
            self.encrypts.encrypt_blocks(chains);
            for (chain, blocks) in chains.iter().zip(&mut lanes) {
                if let Some(block) = blocks.get_mut(at) {
                    *block = (*chain).into();
                }
            }
        }
    }
}

/// Adds a block to a chain, by exclusive or.
#[inline(always)]
fn mix(chain: &mut Block, block: &[u8; BLOCK]) {
    *chain = (u128::from_ne_bytes((*chain).into()) ^ u128::from_ne_bytes(*block)).to_ne_bytes().into();
}
