//! `SetSep` and `Othello`: the table that every node holds, at the owner together with the keys.

use crate::arrays::{Column, input, output, same_length};
use crate::errors::{Failure, Kind};
use numpy::{Ix1, PyArray1, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scalebricks_tables::Gpt as _;
use scalebricks_tables::hashing::hashes_of;
use scalebricks_tables::published::{Op, SnapshotError};
use scalebricks_tables::{othello, setsep};
use scalebricks_types::{Applied, Delta, KeyHash, PartitionCount, PartitionId};
use std::sync::{Arc, Mutex, PoisonError};

/// The arguments of a build that both tables share.
struct Build<'py, V: numpy::Element> {
    keys: Column<'py, u64>,
    values: Column<'py, V>,
    capacity: u64,
    partitions: PartitionCount,
}

impl<'py, V: numpy::Element> Build<'py, V> {
    fn new(
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        capacity: u64,
        partitions: u32,
    ) -> PyResult<Self> {
        let (keys, values) = (input::<u64, Ix1>(keys, "keys")?, input::<V, Ix1>(values, "values")?);
        same_length(["keys", "values"], [keys.len(), values.len()])?;
        let capacity = capacity.max(keys.len() as u64);
        let partitions = PartitionCount::new(partitions).map_err(Failure::from)?;
        Ok(Self { keys, values, capacity, partitions })
    }
}

/// Defines a class. The two tables have the same functions, with values of different types; `$new` makes the table.
macro_rules! compact_class {
    (
        $(#[$doc:meta])*
        $name:ident { module: $module:ident, table: $table:ident, control: $control:ident, reader: $reader:ident, value: $value:ty }
        $($new:tt)*
    ) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "scalebricks")]
        pub(crate) struct $name {
            table: Arc<$module::$table>,
            control: Option<Mutex<$module::$control>>,
            /// Readers that no thread uses at the moment.
            readers: Mutex<Vec<$module::$reader>>,
        }

        impl $name {
            fn of(table: $module::$table, control: Option<$module::$control>) -> Self {
                let control = control.map(Mutex::new);
                Self { table: Arc::new(table), control, readers: Mutex::default() }
            }

            /// Calls `act` with the keys, detached from the interpreter.
            fn owned<T: Send>(
                &self,
                py: Python<'_>,
                act: impl FnOnce(&mut $module::$control) -> Result<T, Failure> + Send,
            ) -> PyResult<T> {
                let none = || Failure::value("this table has no keys: only its owner, which built it, has them");
                let control = self.control.as_ref().ok_or_else(none)?;
                Ok(py.detach(|| act(&mut control.lock().unwrap_or_else(PoisonError::into_inner)))?)
            }

            /// Applies operations to the keys and to the table.
            fn change<'py>(
                &self,
                py: Python<'py>,
                ops: impl FnOnce() -> Vec<Op<$value>> + Send,
            ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
                let deltas = self.owned(py, |control| {
                    let deltas = control.batch_with(&self.table, &ops())?;
                    Ok(deltas.iter().map(Delta::encode).collect::<Vec<_>>())
                })?;
                Ok(deltas.iter().map(|delta| PyBytes::new(py, delta)).collect())
            }
        }

        #[pymethods]
        impl $name {
            $($new)*

            /// A table from its snapshot, or an owner from a snapshot with keys. The bytes are checked.
            #[staticmethod]
            fn from_snapshot(py: Python<'_>, snapshot: &[u8]) -> PyResult<Self> {
                let made = py.detach(|| match $module::$table::read_snapshot(snapshot) {
                    Ok(table) => Ok(Self::of(table, None)),
                    Err(SnapshotError::Magic) => {
                        let control = $module::$control::read_snapshot(snapshot)?;
                        Ok(Self::of(control.export(), Some(control)))
                    }
                    Err(error) => Err(Failure::from(error)),
                });
                Ok(made?)
            }

            /// A snapshot of the table, or with `keys=True` of the owner.
            #[pyo3(signature = (*, keys=false))]
            fn snapshot<'py>(&self, py: Python<'py>, keys: bool) -> PyResult<Bound<'py, PyBytes>> {
                let mut bytes = Vec::new();
                if keys {
                    self.owned(py, |control| Ok(control.write_snapshot(&mut bytes)?))?;
                } else {
                    py.detach(|| self.table.write_snapshot(&mut bytes)).map_err(Failure::from)?;
                }
                Ok(PyBytes::new(py, &bytes))
            }

            /// The value of each key; an arbitrary one for keys that are not in the table.
            #[pyo3(signature = (keys, out=None))]
            fn lookup<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
                out: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyArray1<$value>>> {
                let keys = input::<u64, Ix1>(keys, "keys")?;
                let (array, mut written) = output::<$value>(py, out, keys.len())?;
                let (hashes, values) = (hashes_of(keys.as_slice()?), written.as_slice_mut()?);
                py.detach(|| {
                    let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let mut reader = idle.unwrap_or_else(|| $module::$reader::new(Arc::clone(&self.table)));
                    reader.lookup_batch(hashes, values);
                    self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
                });
                Ok(array)
            }

            /// The exact value of a key, or None. Only at the owner.
            fn get(&self, py: Python<'_>, key: u64) -> PyResult<Option<$value>> {
                self.owned(py, |control| Ok(control.get(KeyHash::new(key))))
            }

            /// Adds keys: all, or none. Returns deltas for the other tables. Only at the owner.
            fn insert<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
                values: &Bound<'py, PyAny>,
            ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
                let given = Build::<$value>::new(keys, values, 0, 1)?;
                let (keys, values) = (hashes_of(given.keys.as_slice()?), given.values.as_slice()?);
                self.change(py, || {
                    keys.iter().zip(values).map(|(&key, &value)| Op::Insert(key, value)).collect()
                })
            }

            /// Changes values of keys: all, or none. Returns deltas for the other tables. Only at the owner.
            fn update<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
                values: &Bound<'py, PyAny>,
            ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
                let given = Build::<$value>::new(keys, values, 0, 1)?;
                let (keys, values) = (hashes_of(given.keys.as_slice()?), given.values.as_slice()?);
                self.change(py, || {
                    keys.iter().zip(values).map(|(&key, &value)| Op::Update(key, value)).collect()
                })
            }

            /// Removes keys: all, or none. Returns deltas for the other tables. Only at the owner.
            fn remove<'py>(
                &self,
                py: Python<'py>,
                keys: &Bound<'py, PyAny>,
            ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
                let keys = input::<u64, Ix1>(keys, "keys")?;
                let keys = hashes_of(keys.as_slice()?);
                self.change(py, || keys.iter().map(|&key| Op::Remove(key)).collect())
            }

            /// Applies a delta of the owner. Returns whether the table changed: False if it had the changes already.
            fn apply(&self, py: Python<'_>, delta: &[u8]) -> PyResult<bool> {
                if self.control.is_some() {
                    return Err(Failure::value("the owner's table follows its keys: it takes no deltas").into());
                }
                let applied = py.detach(|| {
                    let delta = Delta::decode(delta)?;
                    Ok::<_, Failure>(self.table.apply(&delta)? == Applied::Advanced)
                });
                Ok(applied?)
            }

            /// Number of deltas of a partition since the table was empty, the build included.
            #[pyo3(signature = (partition=0))]
            fn position(&self, py: Python<'_>, partition: u16) -> PyResult<u64> {
                let position = py.detach(|| self.table.position(PartitionId(partition)));
                let absent = || Failure::new(Kind::Key, format!("there is no partition {partition}"));
                Ok(position.ok_or_else(absent)?.0)
            }

            /// All keys and values, in ascending order of keys. Only at the owner.
            #[allow(clippy::type_complexity, reason = "two arrays")]
            fn items<'py>(
                &self,
                py: Python<'py>,
            ) -> PyResult<(Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<$value>>)> {
                let (keys, values): (Vec<_>, Vec<_>) = self
                    .owned(py, |control| Ok(control.iter().map(|(key, value)| (key.get(), value)).unzip()))?;
                Ok((PyArray1::from_vec(py, keys), PyArray1::from_vec(py, values)))
            }

            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                self.owned(py, |control| Ok(control.len() as usize))
            }

            fn __repr__(&self) -> String {
                let of = if self.control.is_some() { "owner" } else { "replica" };
                let params = self.table.params();
                let (bits, bytes) = (params.value_bits(), self.table.table_bytes());
                format!("<{} of {bits} value bits, {of}, {bytes} bytes>", stringify!($name))
            }

            /// Whether this object has the keys.
            #[getter]
            fn is_owner(&self) -> bool {
                self.control.is_some()
            }

            /// Bits of a value.
            #[getter]
            fn value_bits(&self) -> u8 {
                self.table.params().value_bits()
            }

            /// Bytes of the table that every node holds.
            #[getter]
            fn table_bytes(&self) -> usize {
                self.table.table_bytes()
            }

            /// Bits of the table per key, without the table's spare memory. Only at the owner.
            #[getter]
            fn bits_per_key(&self, py: Python<'_>) -> PyResult<f64> {
                self.owned(py, |control| Ok(control.stats().bits_per_key))
            }
        }
    };
}

compact_class! {
    /// SetSep: a table from keys to values of 1 to 8 bits that does not store the keys.
    ///
    /// The object that is built owns the keys. Other tables are restored from its snapshot and follow it by deltas.
    SetSep { module: setsep, table: SetSep, control: SetSepControl, reader: SetSepReader, value: u8 }

    /// Builds a table from keys, which are hashes (uint64), and values (uint8).
    #[new]
    #[pyo3(signature = (keys, values, *, value_bits, capacity=0, partitions=1, seed=0, threads=0, format="linear"))]
    #[allow(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        value_bits: u8,
        capacity: u64,
        partitions: u32,
        seed: u64,
        threads: usize,
        format: &str,
    ) -> PyResult<Self> {
        let given = Build::<u8>::new(keys, values, capacity, partitions)?;
        let known = setsep::Format::ALL.into_iter().find(|known| known.name() == format);
        let names = || setsep::Format::ALL.map(setsep::Format::name).join(", ");
        let format = known.ok_or_else(|| Failure::value(format!("format is {format:?}, not one of {}", names())))?;
        let params = setsep::Params::for_keys_in(format, given.capacity, value_bits, given.partitions);
        let params = params.map_err(Failure::from)?.with_seed(seed);
        let (keys, values) = (hashes_of(given.keys.as_slice()?), given.values.as_slice()?);
        let control = py.detach(|| setsep::SetSepBuilder::new(params).threads(threads).build_from(keys, values));
        let control = control.map_err(Failure::from)?;
        let table = py.detach(|| control.export());
        Ok(Self::of(table, Some(control)))
    }
}

compact_class! {
    /// Othello: a table from keys to values of 1 to 16 bits that does not store the keys.
    ///
    /// The object that is built owns the keys. Other tables are restored from its snapshot and follow it by deltas.
    Othello { module: othello, table: Othello, control: OthelloControl, reader: OthelloReader, value: u16 }

    /// Builds a table from keys, which are hashes (uint64), and values (uint16).
    #[new]
    #[pyo3(signature = (keys, values, *, value_bits, capacity=0, partitions=1, seed=0, threads=0))]
    #[allow(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        value_bits: u8,
        capacity: u64,
        partitions: u32,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let given = Build::<u16>::new(keys, values, capacity, partitions)?;
        let params = othello::Params::for_keys(given.capacity, value_bits, given.partitions);
        let params = params.map_err(Failure::from)?.with_seed(seed);
        let (keys, values) = (hashes_of(given.keys.as_slice()?), given.values.as_slice()?);
        let builder = othello::OthelloBuilder::new(params).threads(threads).may_grow();
        let control = py.detach(|| builder.build_from(keys, values)).map_err(Failure::from)?;
        let table = py.detach(|| control.export());
        Ok(Self::of(table, Some(control)))
    }
}
