//! `Lpm`: longest-prefix match.

use crate::arrays::{Column, input, output, rows, same_length};
use crate::errors::{Failure, Kind};
use numpy::{Ix1, PyArray1, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use scalebricks_tables::lpm::{self, Address, LpmReader, NextHop, Params, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Addresses looked up together.
const TOGETHER: usize = 1024;
/// The answer for an address that no prefix covers.
const NO_ROUTE: i32 = -1;

/// A table of one version of IP, and the readers that no thread uses at the moment.
struct Routes<A: Address> {
    table: Arc<lpm::Lpm<A>>,
    readers: Mutex<Vec<LpmReader<A>>>,
}

enum Version {
    V4(Routes<Ipv4Addr>),
    V6(Routes<Ipv6Addr>),
}

/// Runs the same expression for either version.
macro_rules! either {
    ($of:expr, $it:ident => $act:expr) => {
        match &$of.routes {
            Version::V4($it) => $act,
            Version::V6($it) => $act,
        }
    };
}

/// Addresses in an array: uint32 for IPv4, rows of 16 uint8 for IPv6.
pub(crate) enum Addresses<'py> {
    V4(Column<'py, u32>),
    V6(crate::arrays::Rows<'py, u8>),
}

impl<'py> Addresses<'py> {
    pub(crate) fn new(value: &Bound<'py, PyAny>, name: &str, is_v4: bool) -> PyResult<Self> {
        Ok(if is_v4 { Self::V4(input::<u32, Ix1>(value, name)?) } else { Self::V6(rows(value, name, 16)?) })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::V4(column) => column.len(),
            Self::V6(rows) => rows.shape()[0],
        }
    }
}

/// An address as it lies in an array.
pub(crate) trait Stored: Address {
    type Form: Copy + Sync;
    fn of(form: Self::Form) -> Self;
    /// The addresses of an array of this version.
    fn slice<'a>(addresses: &'a Addresses<'_>) -> PyResult<&'a [Self::Form]>;
}

impl Stored for Ipv4Addr {
    type Form = u32;

    fn of(form: u32) -> Self {
        Self::from_bits(form)
    }

    fn slice<'a>(addresses: &'a Addresses<'_>) -> PyResult<&'a [u32]> {
        match addresses {
            Addresses::V4(column) => Ok(column.as_slice()?),
            Addresses::V6(_) => Ok(&[]),
        }
    }
}

impl Stored for Ipv6Addr {
    type Form = [u8; 16];

    fn of(form: [u8; 16]) -> Self {
        Self::from(form)
    }

    fn slice<'a>(addresses: &'a Addresses<'_>) -> PyResult<&'a [[u8; 16]]> {
        match addresses {
            Addresses::V4(_) => Ok(&[]),
            Addresses::V6(rows) => Ok(rows.as_slice()?.as_chunks().0),
        }
    }
}

fn hop(index: u32) -> Result<NextHop, Failure> {
    let most = NextHop::MAX;
    NextHop::new(index).ok_or_else(|| Failure::value(format!("next hop {index} is more than {most}")))
}

fn prefix<A: Address>(text: &str) -> Result<Prefix<A>, Failure> {
    Ok(text.parse::<Prefix<A>>()?)
}

impl<A: Stored> Routes<A> {
    fn new(params: Params) -> Self {
        Self { table: Arc::new(lpm::Lpm::new(params)), readers: Mutex::default() }
    }

    /// The addresses of an array that was checked to be of this version.
    #[expect(clippy::unused_self, reason = "it says which version")]
    fn slice<'a>(&self, addresses: &'a Addresses<'_>) -> PyResult<&'a [A::Form]> {
        A::slice(addresses)
    }

    fn insert_all(&self, addresses: &[A::Form], lengths: &[u8], hops: &[u32]) -> Result<(), Failure> {
        for ((&address, &length), &index) in addresses.iter().zip(lengths).zip(hops) {
            self.table.insert(Prefix::new(A::of(address), length)?, hop(index)?)?;
        }
        Ok(())
    }

    fn lookup(&self, addresses: &[A::Form], hops: &mut [i32]) {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = idle.unwrap_or_else(|| LpmReader::new(Arc::clone(&self.table)));
        let (mut made, mut found) = (Vec::with_capacity(TOGETHER), [None; TOGETHER]);
        for (addresses, hops) in addresses.chunks(TOGETHER).zip(hops.chunks_mut(TOGETHER)) {
            made.clear();
            made.extend(addresses.iter().map(|&form| A::of(form)));
            reader.lookup_batch(&made, &mut found[..made.len()]);
            for (to, hop) in hops.iter_mut().zip(&found) {
                *to = hop.map_or(NO_ROUTE, |hop| hop.index().cast_signed()); // below 2^31
            }
        }
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    fn longest(&self, address: &str) -> Result<Option<(String, u32)>, Failure> {
        let parsed = address.parse::<A>();
        let address =
            parsed.map_err(|_| Failure::value(format!("{address:?} is not an address of the table")))?;
        Ok(self.table.longest(address).map(|(prefix, hop)| (prefix.to_string(), hop.index())))
    }

    fn items(&self) -> Vec<(String, u32)> {
        let mut items = Vec::new();
        self.table.for_each(|prefix, hop| items.push((prefix.to_string(), hop.index())));
        items
    }
}

/// Longest-prefix match: from an address to the next hop of the longest prefix that covers it.
///
/// Addresses are arrays of uint32 for IPv4, and of uint8 with 16 columns for IPv6. A next hop is a number below 2^31 - 1.
#[pyclass(frozen, module = "scalebricks")]
pub(crate) struct Lpm {
    routes: Version,
}

impl Lpm {
    const fn is_v4(&self) -> bool {
        matches!(self.routes, Version::V4(_))
    }
}

#[pymethods]
impl Lpm {
    /// An empty table for IP version 4 or 6. The first `root_bits` bits of an address (1 to 24) index an array; at most
    /// `block_bytes` bytes serve the others.
    #[new]
    #[pyo3(signature = (version=4, *, root_bits=16, block_bytes=67_108_864))]
    fn new(version: u8, root_bits: u8, block_bytes: usize) -> PyResult<Self> {
        let params = Params::new(root_bits, block_bytes).map_err(Failure::from)?;
        let routes = match version {
            4 => Version::V4(Routes::new(params)),
            6 => Version::V6(Routes::new(params)),
            other => return Err(Failure::value(format!("version is {other}, not 4 or 6")).into()),
        };
        Ok(Self { routes })
    }

    /// Adds a prefix such as "10.0.0.0/8", or changes its next hop. Returns the previous next hop, or None.
    #[pyo3(signature = (prefix, hop))]
    fn insert(&self, py: Python<'_>, prefix: &str, hop: u32) -> PyResult<Option<u32>> {
        let old = py.detach(|| {
            let hop = self::hop(hop)?;
            Ok::<_, Failure>(either!(self, routes => routes.table.insert(self::prefix(prefix)?, hop)?))
        })?;
        Ok(old.map(NextHop::index))
    }

    /// Adds prefixes from arrays, in order: first addresses, lengths (uint8) and next hops (uint32).
    fn insert_all(
        &self,
        py: Python<'_>,
        addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        hops: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let addresses = Addresses::new(addresses, "addresses", self.is_v4())?;
        let (lengths, hops) = (input::<u8, Ix1>(lengths, "lengths")?, input::<u32, Ix1>(hops, "hops")?);
        same_length(["addresses", "lengths"], [addresses.len(), lengths.len()])?;
        same_length(["addresses", "hops"], [addresses.len(), hops.len()])?;
        let (lengths, hops) = (lengths.as_slice()?, hops.as_slice()?);
        either!(self, routes => {
            let addresses = routes.slice(&addresses)?;
            Ok(py.detach(|| routes.insert_all(addresses, lengths, hops))?)
        })
    }

    /// Removes a prefix. Returns its next hop. Raises `KeyError` if it is not there.
    #[pyo3(signature = (prefix))]
    fn remove(&self, py: Python<'_>, prefix: &str) -> PyResult<u32> {
        let absent = || Failure::new(Kind::Key, format!("no route for {prefix}"));
        let hop = py.detach(|| {
            either!(self, routes => routes.table.remove(self::prefix(prefix)?)).ok_or_else(absent)
        })?;
        Ok(hop.index())
    }

    /// The next hop of exactly this prefix, or None.
    #[pyo3(signature = (prefix))]
    fn get(&self, py: Python<'_>, prefix: &str) -> PyResult<Option<u32>> {
        let hop =
            py.detach(|| Ok::<_, Failure>(either!(self, routes => routes.table.get(self::prefix(prefix)?))))?;
        Ok(hop.map(NextHop::index))
    }

    /// The longest prefix that covers an address such as "10.1.2.3", and its next hop; or None.
    fn longest(&self, py: Python<'_>, address: &str) -> PyResult<Option<(String, u32)>> {
        Ok(py.detach(|| either!(self, routes => routes.longest(address)))?)
    }

    /// The next hop of each address; -1 where no prefix covers it. Returns an array of int32.
    #[pyo3(signature = (addresses, out=None))]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        addresses: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let addresses = Addresses::new(addresses, "addresses", self.is_v4())?;
        let (array, mut written) = output::<i32>(py, out, addresses.len())?;
        let hops = written.as_slice_mut()?;
        either!(self, routes => {
            let addresses = routes.slice(&addresses)?;
            py.detach(|| routes.lookup(addresses, hops));
        });
        Ok(array)
    }

    /// All prefixes with their next hops, by address.
    fn items(&self, py: Python<'_>) -> Vec<(String, u32)> {
        py.detach(|| either!(self, routes => routes.items()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| either!(self, routes => routes.table.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let version = if self.is_v4() { 4 } else { 6 };
        format!("<Lpm of {} prefixes of IPv{version}, {} bytes>", self.__len__(py), self.table_bytes(py))
    }

    /// Bytes of memory that lookups may touch.
    #[getter]
    fn table_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| either!(self, routes => routes.table.table_bytes()))
    }
}
