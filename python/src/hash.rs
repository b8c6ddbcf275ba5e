//! Hashes of keys.

use crate::arrays::{input, output};
use crate::errors::Failure;
use numpy::{Ix1, Ix2, PyArray1, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use scalebricks_types::{HashSeed, KeyHasher};

/// The hasher of a seed of two words.
pub(crate) fn hasher(seed: (u64, u64)) -> KeyHasher {
    KeyHasher::new(HashSeed::new(seed.0, seed.1))
}

/// The hash of each key: SipHash-1-3 under a secret seed of two words.
///
/// `keys` is an array of uint8 with a key per row, or an array of uint64 with a key per element, hashed as its eight
/// bytes in little-endian order. Returns an array of uint64.
#[pyfunction]
#[pyo3(signature = (keys, seed, out=None))]
pub(crate) fn hash_keys<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    seed: (u64, u64),
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let hasher = hasher(seed);
    if let Ok(words) = input::<u64, Ix1>(keys, "keys") {
        let words = words.as_slice()?;
        let (array, mut written) = output(py, out, words.len())?;
        let hashes = written.as_slice_mut()?;
        py.detach(|| {
            for (word, hash) in words.iter().zip(hashes) {
                *hash = hasher.hash_bytes(&word.to_le_bytes()).get();
            }
        });
        return Ok(array);
    }
    let rows = input::<u8, Ix2>(keys, "keys")?;
    let width = rows.shape()[1];
    if width == 0 {
        return Err(Failure::value("keys have no bytes").into());
    }
    let (array, mut written) = output(py, out, rows.shape()[0])?;
    let (rows, hashes) = (rows.as_slice()?, written.as_slice_mut()?);
    py.detach(|| {
        for (key, hash) in rows.chunks_exact(width).zip(hashes) {
            *hash = hasher.hash_bytes(key).get();
        }
    });
    Ok(array)
}
