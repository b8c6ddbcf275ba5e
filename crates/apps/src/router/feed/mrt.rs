//! MRT dumps of routing tables: type `TABLE_DUMP_V2` of RFC 6396, section 4.3, with the additional paths of
//! RFC 8050.
//!
//! A prefix has one entry per peer of the collector. The route is the one with the shortest AS path, and of
//! equal ones the first: the first two steps of BGP's decision that a dump still allows. Its origin is the
//! last AS of the path; of a final `AS_SET`, the first member.

use super::{FeedCounts, FeedError, FeedRoute, RecordError};
use scalebricks_tables::lpm::{Address, IpPrefix, Prefix, PrefixError};
use std::io::{self, BufRead};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum bytes of a record. An entry takes some hundred bytes, and a collector has up to some hundred
/// peers.
pub const MAX_RECORD_BYTES: u32 = 4 << 20;

const HEADER_BYTES: usize = 12;
const TABLE_DUMP_V2: u16 = 13;

/// Flag of an attribute whose length has two bytes (RFC 4271, 4.3).
const EXTENDED_LENGTH: u8 = 0x10;
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const MP_REACH_NLRI: u8 = 14;
/// Segments of an AS path (RFC 4271, RFC 5065). Those of confederations do not count as path.
const AS_SET: u8 = 1;
const AS_SEQUENCE: u8 = 2;

/// Whether a stream that begins with these bytes is MRT: the type in the header of its first record is one of
/// RFC 6396, of which text would need control characters.
pub fn is_mrt(start: &[u8]) -> bool {
    matches!(start.get(4..6), Some([0, 11..=17 | 32 | 33 | 48 | 49]))
}

/// Reads an MRT dump. Records of other types are skipped and counted.
///
/// # Errors
/// [`FeedError::Io`], [`FeedError::Record`].
pub fn read(mut stream: impl BufRead, mut visit: impl FnMut(FeedRoute)) -> Result<FeedCounts, FeedError> {
    let (mut counts, mut body) = (FeedCounts::default(), Vec::new());
    for record in 1.. {
        if stream.fill_buf()?.is_empty() {
            break;
        }
        let problem = |problem| FeedError::Record { record, problem };
        let filled = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => problem(RecordError::Truncated),
            _ => FeedError::Io(error),
        };
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).map_err(filled)?;
        let [_, _, _, _, kind @ .., a, b, c, d] = header;
        let ([t0, t1, s0, s1], length) = (kind, u32::from_be_bytes([a, b, c, d]));
        if length > MAX_RECORD_BYTES {
            return Err(problem(RecordError::TooLong(length)));
        }
        body.resize(length as usize, 0);
        stream.read_exact(&mut body).map_err(filled)?;
        let found = parse(u16::from_be_bytes([t0, t1]), u16::from_be_bytes([s0, s1]), &body);
        match found.map_err(problem)? {
            Some(route) => {
                counts.count(&route);
                visit(route);
            }
            None => counts.skipped += 1,
        }
    }
    Ok(counts)
}

/// The route of a record; `None` if it has none.
fn parse(kind: u16, subtype: u16, body: &[u8]) -> Result<Option<FeedRoute>, RecordError> {
    let fields = Fields(body);
    match (kind, subtype) {
        (TABLE_DUMP_V2, 2) => routes::<Ipv4Addr>(fields, false),
        (TABLE_DUMP_V2, 4) => routes::<Ipv6Addr>(fields, false),
        (TABLE_DUMP_V2, 8) => routes::<Ipv4Addr>(fields, true),
        (TABLE_DUMP_V2, 10) => routes::<Ipv6Addr>(fields, true),
        _ => Ok(None),
    }
}

/// Bytes that are read field by field.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], RecordError> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(RecordError::Short(what))?;
        self.0 = rest;
        Ok(field)
    }

    /// A number of `N` bytes, the first of which is the highest.
    fn number<const N: usize>(&mut self, what: &'static str) -> Result<u32, RecordError> {
        Ok(self.take(N, what)?.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, RecordError> {
        Ok(self.take(1, what)?[0])
    }
}

/// What the two families differ in here.
trait Family: Address {
    fn of_start(bytes: &[u8]) -> Self;
}

impl Family for Ipv4Addr {
    fn of_start(bytes: &[u8]) -> Self {
        Self::from(padded(bytes))
    }
}

impl Family for Ipv6Addr {
    fn of_start(bytes: &[u8]) -> Self {
        Self::from(padded(bytes))
    }
}

/// The bytes with zeros after them.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(bytes).for_each(|(byte, &given)| *byte = given);
    all
}

/// A record of all paths to a prefix (RFC 6396, 4.3.2), with path identifiers if they are `numbered` (RFC
/// 8050).
fn routes<A: Family>(mut fields: Fields<'_>, numbered: bool) -> Result<Option<FeedRoute>, RecordError>
where
    IpPrefix: From<Prefix<A>>,
{
    fields.take(4, "the sequence number")?;
    let length = fields.byte("the prefix length")?;
    if length > A::BITS {
        return Err(PrefixError::Length { length, most: A::BITS }.into());
    }
    // Bits after the prefix are irrelevant (RFC 4271, 4.3).
    let address = A::of_start(fields.take(usize::from(length).div_ceil(8), "the prefix")?);
    let prefix = IpPrefix::from(Prefix::of(address, length)?);
    let mut best: Option<Path> = None;
    for _ in 0..fields.number::<2>("the number of entries")? {
        fields.take(2 + 4, "the peer and time of an entry")?;
        if numbered {
            fields.take(4, "a path identifier")?;
        }
        let bytes = fields.number::<2>("the length of attributes")?;
        let path = attributes(Fields(fields.take(bytes as usize, "attributes")?))?;
        if best.as_ref().is_none_or(|best| path.length < best.length) {
            best = Some(path);
        }
    }
    Ok(best.map(|path| FeedRoute { prefix, origin: path.origin, next_hop: path.next_hop }))
}

/// What a feed needs of a path.
#[derive(Default)]
struct Path {
    /// Number of autonomous systems; a set counts as one.
    length: u32,
    origin: Option<u32>,
    next_hop: Option<IpAddr>,
}

fn attributes(mut fields: Fields<'_>) -> Result<Path, RecordError> {
    let mut path = Path::default();
    while !fields.0.is_empty() {
        let (flags, kind) = (fields.byte("an attribute's flags")?, fields.byte("an attribute's type")?);
        let what = "an attribute's length";
        let bytes =
            if flags & EXTENDED_LENGTH == 0 { fields.number::<1>(what) } else { fields.number::<2>(what) }?;
        let value = Fields(fields.take(bytes as usize, "an attribute")?);
        match kind {
            AS_PATH => as_path(value, &mut path)?,
            NEXT_HOP => path.next_hop = next_hop(value.0),
            MP_REACH_NLRI => path.next_hop = reachable(value)?,
            _ => {}
        }
    }
    Ok(path)
}

/// AS numbers have four bytes in these dumps, whatever the peer used (RFC 6396, 4.3.4).
fn as_path(mut fields: Fields<'_>, path: &mut Path) -> Result<(), RecordError> {
    while !fields.0.is_empty() {
        let (kind, count) = (fields.byte("a segment's type")?, fields.byte("a segment's length")?);
        let numbers = fields.take(4 * usize::from(count), "a segment")?;
        let number = |at: Option<&[u8]>| at.map(|bytes| u32::from_be_bytes(padded(bytes)));
        let last = match kind {
            AS_SEQUENCE => number(numbers.chunks(4).last()),
            AS_SET => number(numbers.chunks(4).next()),
            _ => continue,
        };
        path.length += if kind == AS_SET { 1 } else { count.into() };
        path.origin = last.or(path.origin);
    }
    Ok(())
}

/// The next hop of `MP_REACH_NLRI`. Dumps contain only its length and the address (RFC 6396, 4.3.4), but some
/// collectors write the whole attribute, which starts with a family below 256.
fn reachable(mut fields: Fields<'_>) -> Result<Option<IpAddr>, RecordError> {
    if fields.0.first() == Some(&0) {
        fields.take(3, "the address family")?;
    }
    let bytes = fields.byte("the length of the next hop")?;
    Ok(next_hop(fields.take(bytes.into(), "the next hop")?))
}

/// A next hop of IPv4, or of IPv6, which a link-local address may follow.
fn next_hop(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::of_start(bytes).into()),
        16 | 32 => Some(Ipv6Addr::of_start(bytes).into()),
        _ => None,
    }
}
