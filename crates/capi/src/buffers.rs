//! Bytes that the library allocated.

use crate::status::Failure;
use std::mem::MaybeUninit;

/// Byte strings that the library allocated: deltas, one for each partition that changed, or one snapshot.
#[derive(Debug)]
pub struct sb_buffers {
    pub(crate) strings: Vec<Vec<u8>>,
}

impl sb_buffers {
    /// The bytes that `write` writes.
    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        Ok(Self { strings: vec![bytes] })
    }
}

/// Number of byte strings; 0 for NULL.
///
/// Threads: any number at the same time.
#[unsafe(no_mangle)]
pub extern "C" fn sb_buffers_count(buffers: Option<&sb_buffers>) -> usize {
    buffers.map_or(0, |buffers| buffers.strings.len())
}

/// A byte string, and its length in `*length`. NULL if `index` is not below the count. The bytes are valid
/// until the buffers are freed.
///
/// Threads: any number at the same time.
#[unsafe(no_mangle)]
pub extern "C" fn sb_buffers_get(
    buffers: Option<&sb_buffers>,
    index: usize,
    length: Option<&mut MaybeUninit<usize>>,
) -> *const u8 {
    let string = buffers.and_then(|buffers| buffers.strings.get(index));
    if let Some(length) = length {
        length.write(string.map_or(0, Vec::len));
    }
    string.map_or(std::ptr::null(), Vec::as_ptr)
}

/// Frees byte strings.
///
/// Threads: no other function may use them.
#[unsafe(no_mangle)]
pub extern "C" fn sb_buffers_free(buffers: Option<Box<sb_buffers>>) {
    drop(buffers);
}
