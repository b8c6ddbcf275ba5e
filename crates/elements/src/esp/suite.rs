//! Encryption and authentication of ESP packets in place.
//!
//! All functions work on the octets from the ESP header to the end of the ICV.

use super::sa::{Keys, Suite};
use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, InnerIvInit, KeyInit};
use aes::{Aes128Dec, Aes128Enc};
use hmac::{Hmac, Mac};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use scalebricks_wire::esp::HEADER_LEN;
use sha1::Sha1;
use std::fmt;

/// Octets of a block of AES.
const BLOCK: usize = 16;
/// Octets of the GCM salt.
const SALT: usize = 4;

/// The keys of an association, prepared for use.
pub enum Cipher {
    /// AES-128-GCM.
    AesGcm {
        /// The key.
        key: Box<LessSafeKey>,
        /// The first octets of every nonce.
        salt: [u8; SALT],
    },
    /// AES-128-CBC with HMAC-SHA1-96.
    AesCbcSha1(Box<CbcSha1>),
}

/// Keys of AES-128-CBC with HMAC-SHA1-96.
pub struct CbcSha1 {
    encrypts: Aes128Enc,
    decrypts: Aes128Dec,
    /// After the key, so that each packet saves hashing it.
    mac: Hmac<Sha1>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AesGcm { .. } => Suite::AesGcm.name(),
            Self::AesCbcSha1(_) => Suite::AesCbcSha1.name(),
        })
    }
}

/// A packet cannot be encrypted, because it is too short or too long for its suite; or it is not authentic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CipherError;

/// What is authenticated of the clear header: SPI and sequence number of 32 or 64 bits (RFC 4106 §5).
fn associated(header: [u8; HEADER_LEN], sequence: u64, is_extended: bool) -> ([u8; 12], usize) {
    let [s0, s1, s2, s3, l0, l1, l2, l3] = header;
    if is_extended {
        let [h0, h1, h2, h3] = ((sequence >> 32) as u32).to_be_bytes();
        ([s0, s1, s2, s3, h0, h1, h2, h3, l0, l1, l2, l3], 12)
    } else {
        ([s0, s1, s2, s3, l0, l1, l2, l3, 0, 0, 0, 0], HEADER_LEN)
    }
}

fn nonce(salt: [u8; SALT], iv: [u8; 8]) -> Nonce {
    let mut nonce = [0; SALT + 8];
    nonce[..SALT].copy_from_slice(&salt);
    nonce[SALT..].copy_from_slice(&iv);
    Nonce::assume_unique_for_key(nonce)
}

impl Cipher {
    /// Prepares keys. `None` only if `ring` refuses a key of the right length, which it does not.
    pub fn new(keys: &Keys) -> Option<Self> {
        match keys {
            Keys::AesGcm(secret) => {
                let (salt, key) = secret.0.split_last_chunk::<SALT>().map(|(key, salt)| (*salt, key))?;
                let key = UnboundKey::new(&AES_128_GCM, key).ok()?;
                Some(Self::AesGcm { key: Box::new(LessSafeKey::new(key)), salt })
            }
            Keys::AesCbcSha1 { key, auth_key } => Some(Self::AesCbcSha1(Box::new(CbcSha1 {
                encrypts: Aes128Enc::new((&*key.0).into()),
                decrypts: Aes128Dec::new((&*key.0).into()),
                mac: <Hmac<Sha1> as Mac>::new_from_slice(&*auth_key.0).ok()?,
            }))),
        }
    }

    /// Encrypts a packet whose IV is in place, and writes its ICV. `sequence` is the number in its header, with its high
    /// bits. The caller never repeats an IV of GCM, and draws those of CBC at random.
    ///
    /// # Errors
    /// [`CipherError`] if the packet is shorter than header, IV and ICV, or not padded.
    #[inline]
    pub fn seal(&self, esp: &mut [u8], sequence: u64, is_extended: bool) -> Result<(), CipherError> {
        match self {
            Self::AesGcm { key, salt } => {
                let (header, rest) = esp.split_first_chunk_mut::<HEADER_LEN>().ok_or(CipherError)?;
                let (iv, rest) = rest.split_first_chunk_mut::<8>().ok_or(CipherError)?;
                let (plain, icv) = rest.split_last_chunk_mut::<16>().ok_or(CipherError)?;
                let (aad, len) = associated(*header, sequence, is_extended);
                let aad = Aad::from(&aad[..len]);
                let tag = key.seal_in_place_separate_tag(nonce(*salt, *iv), aad, plain);
                icv.copy_from_slice(tag.map_err(|_| CipherError)?.as_ref());
                Ok(())
            }
            Self::AesCbcSha1(keys) => {
                let (covered, icv) = esp.split_last_chunk_mut::<12>().ok_or(CipherError)?;
                let rest = covered.get_mut(HEADER_LEN..).ok_or(CipherError)?;
                let (iv, plain) = rest.split_first_chunk_mut::<BLOCK>().ok_or(CipherError)?;
                let cbc = cbc::Encryptor::<&Aes128Enc>::inner_iv_init(&keys.encrypts, (&*iv).into());
                let len = plain.len();
                cbc.encrypt_padded_mut::<NoPadding>(plain, len).map_err(|_| CipherError)?;
                let mac = keys.mac(covered, sequence, is_extended).finalize().into_bytes();
                icv.copy_from_slice(&mac[..12]);
                Ok(())
            }
        }
    }

    /// Checks the ICV in constant time, and decrypts the octets between IV and ICV.
    ///
    /// # Errors
    /// [`CipherError`] if the packet is not authentic. Its contents are then unspecified.
    #[inline]
    pub fn open(&self, esp: &mut [u8], sequence: u64, is_extended: bool) -> Result<(), CipherError> {
        match self {
            Self::AesGcm { key, salt } => {
                let (header, rest) = esp.split_first_chunk_mut::<HEADER_LEN>().ok_or(CipherError)?;
                let (iv, rest) = rest.split_first_chunk_mut::<8>().ok_or(CipherError)?;
                let (aad, len) = associated(*header, sequence, is_extended);
                let aad = Aad::from(&aad[..len]);
                key.open_in_place(nonce(*salt, *iv), aad, rest).map_err(|_| CipherError)?;
                Ok(())
            }
            Self::AesCbcSha1(keys) => {
                let (covered, icv) = esp.split_last_chunk_mut::<12>().ok_or(CipherError)?;
                let mac = keys.mac(covered, sequence, is_extended);
                mac.verify_truncated_left(icv).map_err(|_| CipherError)?;
                let rest = covered.get_mut(HEADER_LEN..).ok_or(CipherError)?;
                let (iv, secret) = rest.split_first_chunk_mut::<BLOCK>().ok_or(CipherError)?;
                let cbc = cbc::Decryptor::<&Aes128Dec>::inner_iv_init(&keys.decrypts, (&*iv).into());
                cbc.decrypt_padded_mut::<NoPadding>(secret).map_err(|_| CipherError)?;
                Ok(())
            }
        }
    }
}

impl CbcSha1 {
    /// Over everything from the ESP header on; with ESN followed by the high bits (RFC 4303 §2.2.1).
    #[inline]
    pub(super) fn mac(&self, covered: &[u8], sequence: u64, is_extended: bool) -> Hmac<Sha1> {
        let mut mac = self.mac.clone();
        mac.update(covered);
        if is_extended {
            mac.update(&((sequence >> 32) as u32).to_be_bytes());
        }
        mac
    }
}
