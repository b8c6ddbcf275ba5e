//! Encryption and authentication of ESP packets in place.
//!
//! All functions work on the octets from the ESP header to the end of the ICV.

use super::cbc_sha1::CbcSha1;
use super::sa::{Keys, Suite};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use scalebricks_wire::esp::HEADER_LEN;
use std::fmt;

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

/// A packet of a batch.
#[derive(Debug)]
pub struct Work<'a> {
    /// From the ESP header to the end of the ICV.
    pub esp: &'a mut [u8],
    /// The whole sequence number.
    pub sequence: u64,
    /// What became of it.
    pub result: Result<(), CipherError>,
}

/// The high bits of a sequence number, which ESN authenticates and does not send.
pub(super) const fn high(sequence: u64) -> [u8; 4] {
    ((sequence >> 32) as u32).to_be_bytes()
}

/// What is authenticated of the clear header: SPI and sequence number of 32 or 64 bits (RFC 4106 §5).
fn associated(header: [u8; HEADER_LEN], sequence: u64, is_extended: bool) -> ([u8; 12], usize) {
    let [s0, s1, s2, s3, l0, l1, l2, l3] = header;
    if is_extended {
        let [h0, h1, h2, h3] = high(sequence);
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
            Keys::AesCbcSha1 { key, auth_key } => {
                Some(Self::AesCbcSha1(Box::new(CbcSha1::new(key, auth_key))))
            }
        }
    }

    /// Encrypts packets whose IVs are in place, and writes their ICVs. The numbers are those of their headers, with the
    /// high bits. The caller never repeats an IV of GCM, and draws those of CBC at random. A packet's result is
    /// [`CipherError`] if it is shorter than header, IV and ICV, or not padded.
    ///
    /// Eight packets at once are fastest with CBC, for GCM it makes no difference.
    #[inline]
    pub fn seal_many(&self, works: &mut [Work<'_>], is_extended: bool) {
        match self {
            Self::AesGcm { key, salt } => {
                for Work { esp, sequence, result } in works {
                    *result = seal_gcm(key, *salt, esp, *sequence, is_extended).ok_or(CipherError);
                }
            }
            Self::AesCbcSha1(keys) => keys.seal_many(works, is_extended),
        }
    }

    /// Checks ICVs in constant time, and decrypts the octets between IV and ICV. A packet's result is [`CipherError`] if
    /// it is not authentic; its contents are then unspecified.
    #[inline]
    pub fn open_many(&self, works: &mut [Work<'_>], is_extended: bool) {
        match self {
            Self::AesGcm { key, salt } => {
                for Work { esp, sequence, result } in works {
                    *result = open_gcm(key, *salt, esp, *sequence, is_extended).ok_or(CipherError);
                }
            }
            Self::AesCbcSha1(keys) => keys.open_many(works, is_extended),
        }
    }

    /// Encrypts one packet, as [`seal_many`](Self::seal_many).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn seal(&self, esp: &mut [u8], sequence: u64, is_extended: bool) -> Result<(), CipherError> {
        let mut work = [Work { esp, sequence, result: Ok(()) }];
        self.seal_many(&mut work, is_extended);
        work[0].result
    }

    /// Decrypts one packet, as [`open_many`](Self::open_many).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn open(&self, esp: &mut [u8], sequence: u64, is_extended: bool) -> Result<(), CipherError> {
        let mut work = [Work { esp, sequence, result: Ok(()) }];
        self.open_many(&mut work, is_extended);
        work[0].result
    }
}

#[inline]
fn seal_gcm(
    key: &LessSafeKey,
    salt: [u8; SALT],
    esp: &mut [u8],
    sequence: u64,
    is_extended: bool,
) -> Option<()> {
    let (header, rest) = esp.split_first_chunk_mut::<HEADER_LEN>()?;
    let (iv, rest) = rest.split_first_chunk_mut::<8>()?;
    let (plain, icv) = rest.split_last_chunk_mut::<16>()?;
    let (aad, len) = associated(*header, sequence, is_extended);
    let tag = key.seal_in_place_separate_tag(nonce(salt, *iv), Aad::from(&aad[..len]), plain).ok()?;
    icv.copy_from_slice(tag.as_ref());
    Some(())
}

#[inline]
fn open_gcm(
    key: &LessSafeKey,
    salt: [u8; SALT],
    esp: &mut [u8],
    sequence: u64,
    is_extended: bool,
) -> Option<()> {
    let (header, rest) = esp.split_first_chunk_mut::<HEADER_LEN>()?;
    let (iv, rest) = rest.split_first_chunk_mut::<8>()?;
    let (aad, len) = associated(*header, sequence, is_extended);
    key.open_in_place(nonce(salt, *iv), Aad::from(&aad[..len]), rest).ok()?;
    Some(())
}
