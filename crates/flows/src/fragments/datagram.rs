//! The fragments of one packet.

use super::{FRAGMENT_COST, PACKET_COST, Refusal};
use scalebricks_wire::IpSummary;
use scalebricks_wire::ipv6::{FRAGMENT_HEADER_LEN, HEADER_LEN, Ipv6};
use scalebricks_wire::{checksum, packet::Fragment};

/// Longest payload of a packet, octets: the largest value of the length fields.
const MOST: usize = 0xffff;

/// A packet in parts. Fragments neither overlap nor exceed the end.
#[derive(Debug, Default)]
pub(super) struct Datagram {
    /// Headers of the first fragment, as they came.
    headers: Headers,
    /// Data by offset, in order.
    fragments: Vec<(usize, Box<[u8]>)>,
    /// Octets of data so far.
    len: usize,
    /// Octets of data of the whole, once the last fragment is here.
    end: Option<usize>,
    /// Octets of the longest fragment with its header.
    pub(super) longest: usize,
    /// Kept only to refuse what comes later.
    is_refused: bool,
}

/// The headers of a fragment.
#[derive(Debug, Default)]
struct Headers {
    bytes: Vec<u8>,
    /// Where the fragment header of IPv6 begins, and where its next-header value is announced.
    fragment_at: Option<(usize, usize)>,
}

impl Headers {
    /// Octets of the whole packet's headers that its length field counts.
    fn counted(&self) -> usize {
        let uncounted = if self.fragment_at.is_some() { HEADER_LEN + FRAGMENT_HEADER_LEN } else { 0 };
        self.bytes.len().saturating_sub(uncounted)
    }

    /// Writes the headers of the whole packet, still with the first fragment's length and checksum.
    fn write_whole(&self, out: &mut Vec<u8>) {
        let Some((at, announced_at)) = self.fragment_at else {
            out.extend_from_slice(&self.bytes);
            if let Some(flags_and_offset) = out.get_mut(6..8) {
                flags_and_offset.fill(0);
            }
            return;
        };
        out.extend_from_slice(self.bytes.get(..at).unwrap_or_default());
        if let (Some(announced), Some(next_header)) = (out.get_mut(announced_at), self.bytes.get(at)) {
            *announced = *next_header;
        }
    }
}

/// A fragment as offset and data.
struct Part<'a> {
    /// Headers, if it is the first.
    headers: Option<Headers>,
    offset: usize,
    data: &'a [u8],
    more: bool,
}

impl<'a> Part<'a> {
    fn read(bytes: &'a [u8], ip: &IpSummary, fragment: Fragment) -> Option<Self> {
        let (headers_len, fragment_at) = if ip.is_ipv4() {
            (usize::from(ip.header_len), None)
        } else {
            let header = Ipv6::parse(bytes).ok()?.fragment()?;
            let at = usize::from(header.header_offset);
            (at + FRAGMENT_HEADER_LEN, Some((at, usize::from(header.announced_at))))
        };
        let (headers, data) = bytes.split_at_checked(headers_len)?;
        let headers = fragment.is_first().then(|| Headers { bytes: headers.to_vec(), fragment_at });
        Some(Self { headers, offset: usize::from(fragment.offset), data, more: fragment.more })
    }
}

impl Datagram {
    /// Number of its fragments that are here.
    pub(super) const fn pieces(&self) -> usize {
        self.fragments.len()
    }

    /// What it costs, octets.
    pub(super) fn cost(&self) -> u64 {
        PACKET_COST
            + (self.headers.bytes.len() + self.len) as u64
            + self.fragments.len() as u64 * FRAGMENT_COST
    }

    /// Refuses all that comes later, and keeps nothing.
    fn refuse(&mut self, refusal: Refusal) -> Refusal {
        *self = Self { is_refused: true, ..Self::default() };
        refusal
    }

    /// Adds a fragment.
    pub(super) fn add(
        &mut self,
        bytes: &[u8],
        ip: &IpSummary,
        fragment: Fragment,
        most_fragments: usize,
    ) -> Result<(), Refusal> {
        if self.is_refused {
            return Err(Refusal::Refused);
        }
        let part = Part::read(bytes, ip, fragment).ok_or(Refusal::Malformed)?;
        if part.data.is_empty() {
            return Err(Refusal::Empty);
        }
        let end = part.offset + part.data.len();
        let is_behind_end = if part.more {
            self.end.is_some_and(|last| end > last)
        } else {
            self.end.is_some_and(|last| end != last)
                || self.fragments.last().is_some_and(|(at, data)| at + data.len() > end)
        };
        if is_behind_end {
            return Err(self.refuse(Refusal::End));
        }
        let at = self.fragments.partition_point(|(offset, _)| *offset < part.offset);
        if let Some((offset, data)) = self.fragments.get(at) {
            if *offset == part.offset && **data == *part.data {
                return Err(Refusal::Repeated);
            }
            if *offset < end {
                return Err(self.refuse(Refusal::Overlap));
            }
        }
        let before = at.checked_sub(1).and_then(|before| self.fragments.get(before));
        if before.is_some_and(|(offset, data)| offset + data.len() > part.offset) {
            return Err(self.refuse(Refusal::Overlap));
        }
        if self.fragments.len() >= most_fragments {
            return Err(self.refuse(Refusal::TooMany));
        }
        if !part.more {
            self.end = Some(end);
        }
        if let Some(headers) = part.headers {
            self.headers = headers;
        }
        if self.headers.counted() + self.end.unwrap_or(end) > MOST {
            return Err(self.refuse(Refusal::TooLong));
        }
        self.len += part.data.len();
        self.longest = self.longest.max(bytes.len());
        self.fragments.insert(at, (part.offset, part.data.into()));
        Ok(())
    }

    /// Whether all fragments are here: as they do not overlap, their lengths tell.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_refused && self.end == Some(self.len) && !self.headers.bytes.is_empty()
    }

    /// Writes the first fragment as it came, without padding. Returns whether it is here.
    pub(super) fn write_first(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some((0, data)) = self.fragments.first() else { return false };
        out.extend_from_slice(&self.headers.bytes);
        out.extend_from_slice(data);
        true
    }

    /// Writes the whole packet.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        self.headers.write_whole(out);
        let headers_len = out.len();
        for (_, data) in &self.fragments {
            out.extend_from_slice(data);
        }
        let is_ipv4 = out.first().is_some_and(|first| first >> 4 == 4);
        // `add` has checked the length.
        let (at, len) = if is_ipv4 { (2, out.len()) } else { (4, out.len().saturating_sub(HEADER_LEN)) };
        if let Some(field) = out.get_mut(at..at + 2) {
            field.copy_from_slice(&(len as u16).to_be_bytes());
        }
        if is_ipv4 && let Some(header) = out.get_mut(..headers_len) {
            header[10..12].fill(0);
            let sum = checksum::checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}
