//! Flows as an IPFIX file (RFC 5655): messages of RFC 7011 one after another. A record has both directions (RFC 5103).

use crate::error::ProcessError;
use scalebricks_flows::tracker::{EndCause, Ended};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const VERSION: u16 = 10;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
/// Set of templates.
const TEMPLATES: u16 = 2;
const TEMPLATE_V4: u16 = 256;
const TEMPLATE_V6: u16 = 257;
/// Set in the number of an element that is followed by an enterprise number.
const ENTERPRISE: u16 = 0x8000;
/// The enterprise number of reverse elements (RFC 5103 §6.1).
const REVERSE: u32 = 29_305;
/// Longest message, octets: fits an Ethernet frame, so that the file can be sent as it is.
const MOST: usize = 1_400;

/// `octetTotalCount` and `packetTotalCount`.
const OCTETS: u16 = 0x55;
const PACKETS: u16 = 0x56;

/// Elements that both templates have behind the addresses, with their lengths (IANA "IPFIX Information Elements").
const COMMON: [(u16, u16); 11] = [
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (4, 1),   // protocolIdentifier
    (136, 1), // flowEndReason
    (148, 8), // flowId
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (OCTETS, 8),
    (PACKETS, 8),
    (OCTETS | ENTERPRISE, 8),
    (PACKETS | ENTERPRISE, 8),
];
/// Source and destination address.
const ADDRESSES_V4: [(u16, u16); 2] = [(8, 4), (12, 4)];
const ADDRESSES_V6: [(u16, u16); 2] = [(27, 16), (28, 16)];

/// An IPFIX file.
pub(super) struct IpfixFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Sets of the next message.
    sets: Vec<u8>,
    /// Where the last set of data starts in `sets`, and its template.
    open: Option<(usize, u16)>,
    /// Records before the next message, and in it.
    sequence: u32,
    records: u32,
    /// Time of the latest packet of all records, seconds.
    seconds: u32,
}

impl IpfixFile {
    /// Creates the file. The templates are in its first message.
    pub(super) fn create(path: &Path) -> Result<Self, ProcessError> {
        let file = File::create(path).map_err(ProcessError::file(path))?;
        let mut sets = Vec::with_capacity(MOST);
        start(&mut sets, TEMPLATES);
        for (template, addresses) in [(TEMPLATE_V4, ADDRESSES_V4), (TEMPLATE_V6, ADDRESSES_V6)] {
            put16(&mut sets, template);
            put16(&mut sets, (addresses.len() + COMMON.len()) as u16);
            for (element, len) in addresses.iter().chain(&COMMON) {
                put16(&mut sets, *element);
                put16(&mut sets, *len);
                if element & ENTERPRISE != 0 {
                    sets.extend_from_slice(&REVERSE.to_be_bytes());
                }
            }
        }
        finish(&mut sets, 0);
        let path = path.to_owned();
        Ok(Self { path, file: BufWriter::new(file), sets, open: None, sequence: 0, records: 0, seconds: 0 })
    }

    /// Adds a flow.
    pub(super) fn write(&mut self, ended: &Ended<'_>) -> Result<(), ProcessError> {
        let template = if ended.tuple.src.is_ipv4() { TEMPLATE_V4 } else { TEMPLATE_V6 };
        let addresses = if template == TEMPLATE_V4 { &ADDRESSES_V4 } else { &ADDRESSES_V6 };
        let len: u16 = addresses.iter().chain(&COMMON).map(|(_, len)| len).sum();
        if HEADER_LEN + self.sets.len() + SET_HEADER_LEN + usize::from(len) > MOST {
            self.message()?;
        }
        if self.open.is_none_or(|(_, last)| last != template) {
            self.close();
            self.open = Some((self.sets.len(), template));
            start(&mut self.sets, template);
        }
        put(&mut self.sets, ended);
        self.records += 1;
        self.seconds = self.seconds.max((ended.flow.last_ns / 1_000_000_000) as u32); // wraps in 2106, as the field
        Ok(())
    }

    /// Writes the records so far, in a message of their own.
    pub(super) fn flush(&mut self) -> Result<(), ProcessError> {
        if self.records > 0 {
            self.message()?;
        }
        self.file.flush().map_err(ProcessError::file(&self.path))
    }

    /// Completes the file.
    pub(super) fn complete(&mut self) -> Result<(), ProcessError> {
        self.message()?;
        self.file.flush().map_err(ProcessError::file(&self.path))
    }

    fn close(&mut self) {
        if let Some((at, _)) = self.open.take() {
            finish(&mut self.sets, at);
        }
    }

    /// Writes the message that is complete.
    fn message(&mut self) -> Result<(), ProcessError> {
        self.close();
        let mut header = Vec::with_capacity(HEADER_LEN);
        put16(&mut header, VERSION);
        put16(&mut header, (HEADER_LEN + self.sets.len()) as u16); // at most MOST
        header.extend_from_slice(&self.seconds.to_be_bytes());
        header.extend_from_slice(&self.sequence.to_be_bytes());
        header.extend_from_slice(&[0; 4]); // one observation domain
        self.sequence = self.sequence.wrapping_add(self.records);
        self.records = 0;
        let written = self.file.write_all(&header).and_then(|()| self.file.write_all(&self.sets));
        self.sets.clear();
        written.map_err(ProcessError::file(&self.path))
    }
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// A set's header; [`finish`] sets its length.
fn start(out: &mut Vec<u8>, id: u16) {
    put16(out, id);
    put16(out, 0);
}

fn finish(out: &mut [u8], at: usize) {
    let len = (out.len() - at) as u16; // at most MOST
    if let Some(field) = out.get_mut(at + 2..at + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
}

/// A record, in the order of the template.
fn put(out: &mut Vec<u8>, ended: &Ended<'_>) {
    for address in [ended.tuple.src, ended.tuple.dst] {
        match address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    put16(out, ended.tuple.src_port);
    put16(out, ended.tuple.dst_port);
    out.extend_from_slice(&[ended.tuple.protocol, reason(ended.cause)]);
    let flow = ended.flow;
    let ([octets, reverse_octets], [packets, reverse_packets]) = (flow.bytes, flow.packets);
    let (first_ms, last_ms) = (flow.first_ns / 1_000_000, flow.last_ns / 1_000_000);
    for value in [flow.serial, first_ms, last_ms, octets, packets, reverse_octets, reverse_packets] {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// `flowEndReason`.
const fn reason(cause: EndCause) -> u8 {
    match cause {
        EndCause::TimedOut => 1,
        EndCause::ActiveTimeout => 2,
        EndCause::Closed | EndCause::Reset | EndCause::Replaced => 3,
        EndCause::InputEnded | EndCause::Dismissed => 4,
        EndCause::Evicted => 5,
    }
}
