//! The bytes on the socket.
//!
//! Both sides begin with a *hello* of 16 bytes: magic `SBRKENGN`, version u16, [level](Level) u16, four bytes of zero. Then come
//! frames. All numbers are little-endian. Sides of different versions do not talk; sides of different levels do, and neither
//! sends what the other does not know.
//!
//! | part | fields |
//! |---|---|
//! | frame | bytes that follow u32, kind u8, id u64, fields in their order |
//! | text | bytes u16, UTF-8; at most 1,024 bytes |
//! | bytes | length u32, bytes |
//! | option | 0, or 1 and the value |
//! | result | 0 and the value, or 1 and the error: its number, and its fields |
//!
//! The kinds and their fields are those of [`Request`] and [`Response`]. An id is the client's name of a call or of a
//! stream; answers come under it in any order.

mod request;
mod response;
mod values;

pub use request::Request;
pub use response::{End, Response};

use scalebricks_control::engine::ReadError;
use values::{Take, Value};

/// What a hello begins with.
const MAGIC: [u8; 8] = *b"SBRKENGN";

/// The version of the protocol.
pub const VERSION: u16 = 1;

/// What a side knows beyond its version. Software of before levels sends 0 in their place, and ignores what it receives there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u16);

impl Level {
    /// Everything but what higher levels name.
    pub const FIRST: Self = Self(0);

    /// Knows [`ReadError::Ahead`].
    pub const AHEAD: Self = Self(1);

    /// The newest one.
    pub const NEWEST: Self = Self::AHEAD;

    /// The error as a peer of this level understands it.
    #[must_use]
    pub fn error(self, error: ReadError) -> ReadError {
        match error {
            ReadError::Ahead { .. } if self < Self::AHEAD => ReadError::Unavailable(error.to_string()),
            error => error,
        }
    }
}

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 16;

/// Bytes of a frame behind its length, at the most: the longest batch, and what names it.
pub const MAX_FRAME_BYTES: usize = scalebricks_control::engine::MAX_BATCH_BYTES + 512;

/// Bytes of a piece of a snapshot.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// Why bytes are not the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No hello.
    #[error("the other side does not speak the protocol of engines")]
    Magic,
    /// A hello of another version.
    #[error("the other side speaks version {0} of the protocol, this one {VERSION}")]
    Version(u16),
    /// A frame that is too long or too short.
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// A kind that there is not.
    #[error("a frame of kind {0}")]
    Kind(u8),
    /// Fields that are not what the kind has.
    #[error("a frame of kind {0} whose fields are none")]
    Fields(u8),
}

/// What a side says first.
pub fn hello() -> [u8; HELLO_BYTES] {
    let mut out = [0; HELLO_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10..12].copy_from_slice(&Level::NEWEST.0.to_le_bytes());
    out
}

/// Checks what the other side said first. Returns its level.
///
/// # Errors
/// [`CodecError::Magic`], [`CodecError::Version`].
pub fn check_hello(hello: &[u8; HELLO_BYTES]) -> Result<Level, CodecError> {
    if hello[..8] != MAGIC {
        return Err(CodecError::Magic);
    }
    match u16::from_le_bytes([hello[8], hello[9]]) {
        VERSION => Ok(Level(u16::from_le_bytes([hello[10], hello[11]]))),
        other => Err(CodecError::Version(other)),
    }
}

/// What a frame says.
pub trait Message: Sized {
    /// Its kind.
    fn kind(&self) -> u8;
    /// Appends its fields.
    fn put(&self, out: &mut Vec<u8>);
    /// The message of a kind with these fields.
    ///
    /// # Errors
    /// [`CodecError::Kind`], [`CodecError::Fields`].
    fn take(kind: u8, fields: &[u8]) -> Result<Self, CodecError>;
}

/// Appends a frame; returns how long it is.
pub fn encode(id: u64, message: &impl Message, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.push(message.kind());
    id.put(out);
    message.put(out);
    let len = out.len() - start;
    let behind = (len - LENGTH_BYTES) as u32; // payloads are far below 4 GiB
    out[start..start + LENGTH_BYTES].copy_from_slice(&behind.to_le_bytes());
    len
}

/// A message, its id, and how long its frame is.
pub type Decoded<T> = (u64, T, usize);

/// The frame at the front of these bytes; `None` if more has to come first. Allocates no more than the frame is long.
///
/// # Errors
/// [`CodecError`]; then there is no telling where the next frame begins.
pub fn decode<T: Message>(bytes: &[u8]) -> Result<Option<Decoded<T>>, CodecError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length);
    if !(9..=MAX_FRAME_BYTES as u32).contains(&length) {
        return Err(CodecError::Length(length));
    }
    let Some(frame) = rest.get(..length as usize) else { return Ok(None) };
    let mut fields = Take(frame);
    let (Some(kind), Some(id)) = (u8::take(&mut fields), u64::take(&mut fields)) else {
        return Err(CodecError::Length(length));
    };
    Ok(Some((id, T::take(kind, fields.0)?, LENGTH_BYTES + length as usize)))
}

/// Defines the messages of one direction: an enum, and its form on the wire.
macro_rules! messages {
    (
        $(#[$doc:meta])* $name:ident
        $( $(#[$vdoc:meta])* $kind:literal $variant:ident { $( $(#[$fdoc:meta])* $field:ident: $type:ty ),* $(,)? } )*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$vdoc])* $variant { $( $(#[$fdoc])* $field: $type ),* } ),*
        }

        impl $crate::remote::codec::Message for $name {
            fn kind(&self) -> u8 {
                match self {
                    $( Self::$variant { .. } => $kind ),*
                }
            }

            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$variant { $( $field ),* } => { $( $crate::remote::codec::Value::put($field, out); )* } )*
                }
            }

            fn take(kind: u8, fields: &[u8]) -> Result<Self, $crate::remote::codec::CodecError> {
                let mut fields = $crate::remote::codec::Take(fields);
                if ![$( $kind ),*].contains(&kind) {
                    return Err($crate::remote::codec::CodecError::Kind(kind));
                }
                let message = Self::take_fields(kind, &mut fields).filter(|_| fields.0.is_empty());
                message.ok_or($crate::remote::codec::CodecError::Fields(kind))
            }
        }

        impl $name {
            fn take_fields(kind: u8, fields: &mut $crate::remote::codec::Take<'_>) -> Option<Self> {
                match kind {
                    $( $kind => Some(Self::$variant {
                        $( $field: $crate::remote::codec::Value::take(fields)? ),*
                    }), )*
                    _ => None,
                }
            }
        }
    };
}
use messages;

#[cfg(test)]
mod tests;
