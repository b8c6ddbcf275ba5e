//! `DHash`: the table of sessions, whose records are indices of the caller's own arrays.

use crate::arrays::{Column, input, same_length};
use crate::errors::Failure;
use crate::lpm::{Addresses, Stored};
use numpy::{Ix1, PyArray1, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use scalebricks_tables::dhash::{self, Added, Config, Direction, FlowKey, Found, Key4, Key6, Records};
use scalebricks_types::HashSeed;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Packets looked up together.
const TOGETHER: usize = dhash::DHash::<Key4>::BATCH;
/// The record of a session that is not there, or was refused.
const NONE: i64 = -1;

enum Sessions {
    V4(Mutex<dhash::DHash<Key4>>),
    V6(Mutex<dhash::DHash<Key6>>),
}

/// Runs the same expression for either version, with the table locked.
macro_rules! locked {
    ($of:expr, $it:ident => $act:expr) => {
        match &$of.sessions {
            Sessions::V4(table) => {
                let $it = &mut *table.lock().unwrap_or_else(PoisonError::into_inner);
                $act
            }
            Sessions::V6(table) => {
                let $it = &mut *table.lock().unwrap_or_else(PoisonError::into_inner);
                $act
            }
        }
    };
}

/// Runs the same expression for either version, with the table locked and the packets' columns as slices, detached from
/// the interpreter.
macro_rules! work {
    ($of:expr, $py:expr, $packets:expr, $it:ident, $slices:ident => $act:expr) => {
        match &$of.sessions {
            Sessions::V4(table) => {
                let $slices = $packets.slices()?;
                $py.detach(|| {
                    let $it = &mut *table.lock().unwrap_or_else(PoisonError::into_inner);
                    $act
                });
            }
            Sessions::V6(table) => {
                let $slices = $packets.slices()?;
                $py.detach(|| {
                    let $it = &mut *table.lock().unwrap_or_else(PoisonError::into_inner);
                    $act
                });
            }
        }
    };
}

/// The columns of packets.
struct Packets<'py> {
    addresses: [Addresses<'py>; 2],
    ports: [Column<'py, u16>; 2],
    protocols: Column<'py, u8>,
}

impl<'py> Packets<'py> {
    fn new(columns: [&Bound<'py, PyAny>; 5], is_v4: bool) -> PyResult<Self> {
        let [source, destination, source_port, destination_port, protocol] = columns;
        let made = Self {
            addresses: [
                Addresses::new(source, "source", is_v4)?,
                Addresses::new(destination, "destination", is_v4)?,
            ],
            ports: [
                input::<u16, Ix1>(source_port, "source_port")?,
                input::<u16, Ix1>(destination_port, "destination_port")?,
            ],
            protocols: input::<u8, Ix1>(protocol, "protocol")?,
        };
        for (name, length) in [
            ("destination", made.addresses[1].len()),
            ("source_port", made.ports[0].len()),
            ("destination_port", made.ports[1].len()),
            ("protocol", made.protocols.len()),
        ] {
            same_length(["source", name], [made.len(), length])?;
        }
        Ok(made)
    }

    fn len(&self) -> usize {
        self.addresses[0].len()
    }

    /// The columns as slices.
    fn slices<K: Key>(&self) -> PyResult<Slices<'_, K>> {
        Ok(Slices {
            addresses: [K::Form::slice(&self.addresses[0])?, K::Form::slice(&self.addresses[1])?],
            ports: [self.ports[0].as_slice()?, self.ports[1].as_slice()?],
            protocols: self.protocols.as_slice()?,
        })
    }
}

/// The columns of packets as slices.
struct Slices<'a, K: Key> {
    addresses: [&'a [<K::Form as Stored>::Form]; 2],
    ports: [&'a [u16]; 2],
    protocols: &'a [u8],
}

/// A key of the table.
trait Key: FlowKey {
    type Form: Stored;
    fn made(ends: [Self::Form; 2], ports: [u16; 2], protocol: u8) -> Self;
}

impl Key for Key4 {
    type Form = Ipv4Addr;

    fn made([source, destination]: [Ipv4Addr; 2], [from, to]: [u16; 2], protocol: u8) -> Self {
        Self::new(source, destination, protocol, from, to, 0)
    }
}

impl Key for Key6 {
    type Form = Ipv6Addr;

    fn made([source, destination]: [Ipv6Addr; 2], [from, to]: [u16; 2], protocol: u8) -> Self {
        Self::new(source, destination, protocol, from, to, 0)
    }
}

impl<K: Key> Slices<'_, K> {
    /// Calls `act` with the keys of each batch, and the index of its first packet.
    fn each_batch(&self, mut act: impl FnMut(usize, &[K])) {
        let mut keys = Vec::with_capacity(TOGETHER);
        for first in (0..self.protocols.len()).step_by(TOGETHER) {
            let batch = first..self.protocols.len().min(first + TOGETHER);
            keys.clear();
            keys.extend(batch.map(|at| {
                let ends = self.addresses.map(|column| K::Form::of(column[at]));
                K::made(ends, self.ports.map(|column| column[at]), self.protocols[at])
            }));
            act(first, &keys);
        }
    }
}

/// The session of each packet.
fn find<K: Key>(table: &dhash::DHash<K>, packets: &Slices<'_, K>, records: &mut [i64], reverse: &mut [bool]) {
    let mut found = [None; TOGETHER];
    packets.each_batch(|first, keys| {
        table.find_batch(keys, &mut found[..keys.len()]);
        for (at, found) in (first..).zip(&found[..keys.len()]) {
            (records[at], reverse[at]) = match *found {
                Some(Found { record, direction }) => (record.get().into(), direction == Direction::Reverse),
                None => (NONE, false),
            };
        }
    });
}

/// The session of each packet, added if there is none.
fn find_or_add<K: Key>(
    table: &mut dhash::DHash<K>,
    packets: &Slices<'_, K>,
    records: &mut [i64],
    flags: [&mut [bool]; 2],
) {
    let [reverse, new] = flags;
    let refused = Err(dhash::AddError::PoolFull { max_entries: 0 });
    packets.each_batch(|first, keys| {
        let mut added = [refused; TOGETHER];
        table.find_or_add_batch(keys, &mut added[..keys.len()]);
        for (at, added) in (first..).zip(&added[..keys.len()]) {
            (records[at], reverse[at], new[at]) = match *added {
                Ok(Added { record, direction, is_new }) => {
                    (record.get().into(), direction == Direction::Reverse, is_new)
                }
                Err(_) => (NONE, false, false),
            };
        }
    });
}

fn remove<K: Key>(table: &mut dhash::DHash<K>, packets: &Slices<'_, K>, removed: &mut [bool]) {
    packets.each_batch(|first, keys| {
        for (at, key) in (first..).zip(keys) {
            removed[at] = table.remove(key);
        }
    });
}

/// A table of sessions: both directions of a session find the same record, an index below `records` that stays the
/// same until the session is removed. Keep what belongs to sessions in arrays of `records` elements.
///
/// Packets are given by columns of the same length: `source` and `destination` (uint32 for IPv4, uint8 with 16 columns
/// for IPv6), `source_port` and `destination_port` (uint16), `protocol` (uint8).
#[pyclass(frozen, module = "scalebricks")]
pub(crate) struct DHash {
    sessions: Sessions,
    records: usize,
}

impl DHash {
    fn packets<'py>(&self, columns: [&Bound<'py, PyAny>; 5]) -> PyResult<Packets<'py>> {
        Packets::new(columns, matches!(self.sessions, Sessions::V4(_)))
    }
}

type Records1<'py> = Bound<'py, PyArray1<i64>>;
type Flags<'py> = Bound<'py, PyArray1<bool>>;

#[pymethods]
impl DHash {
    /// An empty table for this many sessions of IP version 4 or 6. `seed` is a secret of two words.
    #[new]
    #[pyo3(signature = (sessions, *, seed, version=4))]
    fn new(py: Python<'_>, sessions: u32, seed: (u64, u64), version: u8) -> PyResult<Self> {
        let config = Config::for_sessions(sessions, HashSeed::new(seed.0, seed.1));
        let made = py.detach(|| {
            Ok(match version {
                4 => {
                    let table = dhash::DHash::<Key4>::new(&config, Records::new())?;
                    (table.max_capacity(), Sessions::V4(Mutex::new(table)))
                }
                6 => {
                    let table = dhash::DHash::<Key6>::new(&config, Records::new())?;
                    (table.max_capacity(), Sessions::V6(Mutex::new(table)))
                }
                other => return Err(Failure::value(format!("version is {other}, not 4 or 6"))),
            })
        });
        let (records, sessions) = made?;
        Ok(Self { sessions, records })
    }

    /// The record of each packet's session, -1 if there is none; and whether the packet goes against the session's first
    /// packet.
    fn find<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        destination: &Bound<'py, PyAny>,
        source_port: &Bound<'py, PyAny>,
        destination_port: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
    ) -> PyResult<(Records1<'py>, Flags<'py>)> {
        let packets = self.packets([source, destination, source_port, destination_port, protocol])?;
        let records = PyArray1::zeros(py, packets.len(), false);
        let reverse = PyArray1::zeros(py, packets.len(), false);
        let (mut record, mut against) = (records.readwrite(), reverse.readwrite());
        let (record, against) = (record.as_slice_mut()?, against.as_slice_mut()?);
        work!(self, py, packets, table, slices => find(table, &slices, record, against));
        Ok((records, reverse))
    }

    /// As `find`, and adds the sessions that are not there. Returns records, -1 for packets whose session has no room;
    /// whether each packet goes against the session's first; and whether it was the first.
    fn find_or_add<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        destination: &Bound<'py, PyAny>,
        source_port: &Bound<'py, PyAny>,
        destination_port: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
    ) -> PyResult<(Records1<'py>, Flags<'py>, Flags<'py>)> {
        let packets = self.packets([source, destination, source_port, destination_port, protocol])?;
        let records = PyArray1::zeros(py, packets.len(), false);
        let [reverse, new] = [(); 2].map(|()| PyArray1::zeros(py, packets.len(), false));
        let (mut record, mut against, mut first) =
            (records.readwrite(), reverse.readwrite(), new.readwrite());
        let (record, flags) = (record.as_slice_mut()?, [against.as_slice_mut()?, first.as_slice_mut()?]);
        work!(self, py, packets, table, slices => find_or_add(table, &slices, record, flags));
        Ok((records, reverse, new))
    }

    /// Removes the sessions of these packets. Returns for each whether there was one.
    fn remove<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        destination: &Bound<'py, PyAny>,
        source_port: &Bound<'py, PyAny>,
        destination_port: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
    ) -> PyResult<Flags<'py>> {
        let packets = self.packets([source, destination, source_port, destination_port, protocol])?;
        let removed = PyArray1::zeros(py, packets.len(), false);
        let mut written = removed.readwrite();
        let flags = written.as_slice_mut()?;
        work!(self, py, packets, table, slices => remove(table, &slices, flags));
        Ok(removed)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| locked!(self, table => table.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<DHash of {} sessions, {} records>", self.__len__(py), self.records)
    }

    /// Number of records: all indices are below it.
    #[getter]
    fn records(&self) -> usize {
        self.records
    }

    /// Bytes of memory that the table uses.
    #[getter]
    fn table_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| locked!(self, table => table.memory().total_bytes()))
    }
}
