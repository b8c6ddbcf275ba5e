//! `Cuckoo`: an exact table, keys of two or five words, values of two.

use crate::arrays::{Rows, rows, same_length};
use crate::errors::Failure;
use crate::hash::hasher;
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use scalebricks_tables::cuckoo::{CuckooTable, HashWords, RunError};
use scalebricks_types::{KeyHash, KeyHasher};

/// Words of a value.
const VALUE: usize = 2;
/// Keys hashed and looked up together.
const TOGETHER: usize = 64;

/// The table, by the size of its keys. Boxed, because it is aligned to cache lines, and Python's objects are not.
enum Keys {
    Short(Box<CuckooTable<2, VALUE>>),
    Long(Box<CuckooTable<5, VALUE>>),
}

/// Runs the same expression for either size of keys.
macro_rules! either {
    ($of:expr, $it:ident => $act:expr) => {
        match &$of.table {
            Keys::Short($it) => $act,
            Keys::Long($it) => $act,
        }
    };
}

/// An exact table from keys of 16 or 40 bytes to values of 16 bytes, with one writer at a time and any number of
/// readers that do not wait.
///
/// Keys are arrays of uint64 with `key_words` columns, values such with 2 columns. Other records fit by
/// `array.view(numpy.uint64)`. The key of zeros only cannot be stored.
#[pyclass(frozen, module = "scalebricks")]
pub(crate) struct Cuckoo {
    table: Keys,
    hasher: KeyHasher,
    grows: bool,
}

fn new<const K: usize>(capacity: usize, hasher: KeyHasher) -> Box<CuckooTable<K, VALUE>>
where
    KeyHasher: HashWords<K>,
{
    Box::new(CuckooTable::new(CuckooTable::<K, VALUE, KeyHasher>::slots_for(capacity), 0, hasher))
}

/// The hashes of up to [`TOGETHER`] keys.
fn hashes<const K: usize>(hasher: &KeyHasher, keys: &[[u64; K]]) -> [KeyHash; TOGETHER]
where
    KeyHasher: HashWords<K>,
{
    let mut hashes = [KeyHash::default(); TOGETHER];
    hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = hasher.hash_words(key));
    hashes
}

/// Adds keys in order.
fn insert<const K: usize>(
    table: &CuckooTable<K, VALUE>,
    (hasher, grows): (&KeyHasher, bool),
    keys: &[u64],
    values: &[u64],
) -> Result<(), Failure>
where
    KeyHasher: HashWords<K>,
{
    let (keys, values) = (keys.as_chunks::<K>().0, values.as_chunks::<VALUE>().0);
    let mut writer = table.write();
    for (run, (keys, values)) in keys.chunks(TOGETHER).zip(values.chunks(TOGETHER)).enumerate() {
        let hashes = &hashes(hasher, keys)[..keys.len()];
        let added = if grows {
            writer.insert_all_growing(keys, hashes, values)
        } else {
            writer.insert_all(keys, hashes, values)
        };
        added.map_err(|RunError { at, error }| RunError { at: run * TOGETHER + at, error })?;
    }
    Ok(())
}

fn update<const K: usize>(
    table: &CuckooTable<K, VALUE>,
    hasher: &KeyHasher,
    keys: &[u64],
    values: &[u64],
) -> Result<(), Failure>
where
    KeyHasher: HashWords<K>,
{
    let mut writer = table.write();
    for (at, (key, value)) in keys.as_chunks::<K>().0.iter().zip(values.as_chunks::<VALUE>().0).enumerate() {
        writer.update(key, hasher.hash_words(key), value).map_err(|error| RunError { at, error })?;
    }
    Ok(())
}

fn remove<const K: usize>(
    table: &CuckooTable<K, VALUE>,
    hasher: &KeyHasher,
    keys: &[u64],
) -> Result<(), Failure>
where
    KeyHasher: HashWords<K>,
{
    let mut writer = table.write();
    for (at, key) in keys.as_chunks::<K>().0.iter().enumerate() {
        writer.remove(key, hasher.hash_words(key)).map_err(|error| RunError { at, error })?;
    }
    Ok(())
}

fn lookup<const K: usize>(
    table: &CuckooTable<K, VALUE>,
    hasher: &KeyHasher,
    keys: &[u64],
    (values, found): (&mut [u64], &mut [bool]),
) where
    KeyHasher: HashWords<K>,
{
    let outputs = values.as_chunks_mut::<VALUE>().0.chunks_mut(TOGETHER).zip(found.chunks_mut(TOGETHER));
    for (keys, (values, found)) in keys.as_chunks::<K>().0.chunks(TOGETHER).zip(outputs) {
        let mut answers = [None; TOGETHER];
        table.get_batch(keys, &hashes(hasher, keys)[..keys.len()], &mut answers[..keys.len()]);
        for ((value, found), answer) in values.iter_mut().zip(found).zip(answers) {
            (*value, *found) = (answer.unwrap_or_default(), answer.is_some());
        }
    }
}

impl Cuckoo {
    const fn key_words(&self) -> usize {
        match self.table {
            Keys::Short(_) => 2,
            Keys::Long(_) => 5,
        }
    }

    fn pair<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<[Rows<'py, u64>; 2]> {
        let (keys, values) = (rows(keys, "keys", self.key_words())?, rows(values, "values", VALUE)?);
        same_length(["keys", "values"], [keys.shape()[0], values.shape()[0]])?;
        Ok([keys, values])
    }
}

#[pymethods]
impl Cuckoo {
    /// An empty table for this many keys. If `grows`, it grows by a few buckets with each key that is added.
    #[new]
    #[pyo3(signature = (capacity, *, seed, key_words=2, grows=true))]
    fn new(py: Python<'_>, capacity: u32, seed: (u64, u64), key_words: usize, grows: bool) -> PyResult<Self> {
        let (hasher, capacity) = (hasher(seed), capacity as usize);
        let table = match key_words {
            2 => py.detach(|| Keys::Short(new(capacity, hasher))),
            5 => py.detach(|| Keys::Long(new(capacity, hasher))),
            other => return Err(Failure::value(format!("key_words is {other}, not 2 or 5")).into()),
        };
        Ok(Self { table, hasher, grows })
    }

    /// Adds keys, in order. Raises at the first that is there already (`ValueError`) or has no room (`TableFull`); the
    /// keys before it are then in the table.
    fn insert(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let [keys, values] = self.pair(keys, values)?;
        let (keys, values, how) = (keys.as_slice()?, values.as_slice()?, (&self.hasher, self.grows));
        Ok(py.detach(|| either!(self, table => insert(table, how, keys, values)))?)
    }

    /// Changes values of keys, in order. Raises `KeyError` at the first that is not there.
    fn update(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let [keys, values] = self.pair(keys, values)?;
        let (keys, values) = (keys.as_slice()?, values.as_slice()?);
        Ok(py.detach(|| either!(self, table => update(table, &self.hasher, keys, values)))?)
    }

    /// Removes keys, in order. Raises `KeyError` at the first that is not there.
    fn remove(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = rows(keys, "keys", self.key_words())?;
        let keys = keys.as_slice()?;
        Ok(py.detach(|| either!(self, table => remove(table, &self.hasher, keys)))?)
    }

    /// The value of each key, zeros for keys that are not there; and whether each key is there.
    #[allow(clippy::type_complexity, reason = "two arrays")]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray2<u64>>, Bound<'py, PyArray1<bool>>)> {
        let keys = rows(keys, "keys", self.key_words())?;
        let count = keys.shape()[0];
        let values = PyArray2::zeros(py, [count, VALUE], false);
        let found = PyArray1::zeros(py, count, false);
        let (mut value_rows, mut found_rows) = (values.readwrite(), found.readwrite());
        let (keys, outputs) = (keys.as_slice()?, (value_rows.as_slice_mut()?, found_rows.as_slice_mut()?));
        py.detach(|| either!(self, table => lookup(table, &self.hasher, keys, outputs)));
        Ok((values, found))
    }

    /// All keys and values, in no particular order.
    #[allow(clippy::type_complexity, reason = "two arrays")]
    fn items<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyArray2<u64>>, Bound<'py, PyArray2<u64>>)> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        py.detach(|| {
            either!(self, table => table.for_each(|key, value| {
                keys.extend_from_slice(&key);
                values.extend_from_slice(&value);
            }));
        });
        let rows = values.len() / VALUE;
        let keys = PyArray1::from_vec(py, keys).reshape([rows, self.key_words()])?;
        Ok((keys, PyArray1::from_vec(py, values).reshape([rows, VALUE])?))
    }

    fn __len__(&self) -> usize {
        either!(self, table => table.len())
    }

    fn __repr__(&self) -> String {
        let (keys, bytes) = (self.__len__(), self.table_bytes());
        format!("<Cuckoo of {keys} keys of {} words, {bytes} bytes>", self.key_words())
    }

    /// Bytes of memory that the table uses.
    #[getter]
    fn table_bytes(&self) -> usize {
        either!(self, table => table.table_bytes())
    }
}
