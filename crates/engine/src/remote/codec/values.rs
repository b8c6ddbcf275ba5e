//! The form of each kind of field.

use scalebricks_control::engine::{
    AppendError, Batch, BatchId, EngineError, Entry, ReadError, Record, Revision, SwapError, WriterId,
};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;

/// Bytes of a text, at the most: keys are shorter, and longer reasons are cut.
const MAX_TEXT_BYTES: usize = 1024;

/// Bytes that have still to be read.
pub struct Take<'a>(pub &'a [u8]);

impl Take<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }
}

/// A field.
pub trait Value: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from the front.
    fn take(from: &mut Take<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Take<'_>) -> Option<Self> {
                from.array().map(Self::from_le_bytes)
            }
        }
    )* };
}
numbers!(u8 u16 u32 u64);

/// Structs, as their fields in order.
macro_rules! structs {
    ($($type:ident { $($field:tt),* })*) => { $(
        impl Value for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $( self.$field.put(out); )*
            }

            fn take(from: &mut Take<'_>) -> Option<Self> {
                Some(Self { $( $field: Value::take(from)? ),* })
            }
        }
    )* };
}
structs! {
    PartitionId { 0 }
    Position { 0 }
    Revision { 0 }
    WriterId { 0 }
    BatchId { writer, number }
    Batch { id, payload }
    Entry { position, batch }
    Record { key, revision, value }
}

impl Value for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Take<'_>) -> Option<Self> {
        Some(())
    }
}

impl<A: Value, B: Value> Value for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl Value for String {
    fn put(&self, out: &mut Vec<u8>) {
        let text = cut(self);
        (text.len() as u16).put(out); // at most MAX_TEXT_BYTES
        out.extend_from_slice(text.as_bytes());
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        let len = usize::from(u16::take(from)?);
        let text = from.bytes(len).filter(|_| len <= MAX_TEXT_BYTES)?;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }
}

/// The longest front of a text that is within the limit.
fn cut(text: &str) -> &str {
    let end = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

impl Value for Arc<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out); // limits of payloads are far below 4 GiB
        out.extend_from_slice(self);
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        let len = u32::take(from)?;
        from.bytes(len as usize).map(Self::from)
    }
}

/// Lists: their number, and their elements.
impl<T: Value> Value for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out); // a frame holds fewer
        for element in self {
            element.put(out);
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        // Grows as elements are found: a number alone reserves nothing.
        let count = u32::take(from)?;
        let mut list = Self::new();
        for _ in 0..count {
            let before = from.0.len();
            list.push(T::take(from)?);
            if from.0.len() == before {
                return None; // elements of nothing could be any number
            }
        }
        Some(list)
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(None),
            1 => T::take(from).map(Some),
            _ => None,
        }
    }
}

impl<T: Value, E: Value> Value for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_err()));
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => T::take(from).map(Ok),
            1 => E::take(from).map(Err),
            _ => None,
        }
    }
}

impl Value for AppendError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Refused(why) => (0u8, why.clone()).put(out),
            Self::Unknown(why) => (1u8, why.clone()).put(out),
            Self::TooLarge(len) => (2u8, *len as u64).put(out),
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => String::take(from).map(Self::Refused),
            1 => String::take(from).map(Self::Unknown),
            2 => usize::try_from(u64::take(from)?).ok().map(Self::TooLarge),
            _ => None,
        }
    }
}

impl Value for ReadError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Trimmed { partition, first } => (0u8, (*partition, *first)).put(out),
            Self::Damaged { partition, position, what } => {
                (1u8, (*partition, (*position, what.clone()))).put(out);
            }
            Self::Unavailable(why) => (2u8, why.clone()).put(out),
            Self::Ahead { partition, last } => (3u8, (*partition, *last)).put(out),
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Value::take(from).map(|(partition, first)| Self::Trimmed { partition, first }),
            1 => Value::take(from).map(|(partition, (position, what))| Self::Damaged {
                partition,
                position,
                what,
            }),
            2 => String::take(from).map(Self::Unavailable),
            3 => Value::take(from).map(|(partition, last)| Self::Ahead { partition, last }),
            _ => None,
        }
    }
}

impl Value for SwapError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Conflict(revision) => (0u8, *revision).put(out),
            Self::Unknown(why) => (1u8, why.clone()).put(out),
            Self::Invalid(_) => 2u8.put(out),
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Value::take(from).map(Self::Conflict),
            1 => String::take(from).map(Self::Unknown),
            // What is commonly wrong the client finds by itself, and has words for.
            2 => Some(Self::Invalid("the engine does not keep it")),
            _ => None,
        }
    }
}

impl Value for EngineError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unavailable(why) => (0u8, why.clone()).put(out),
            Self::Refused(why) => (1u8, why.clone()).put(out),
            Self::Damaged(what) => (2u8, what.clone()).put(out),
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        let number = u8::take(from)?;
        let text = String::take(from)?;
        match number {
            0 => Some(Self::Unavailable(text)),
            1 => Some(Self::Refused(text)),
            2 => Some(Self::Damaged(text)),
            _ => None,
        }
    }
}
