//! Reads the blocks of a pcapng file (draft-ietf-opsawg-pcapng).

use super::reader::{read_error, read_u16, read_u32};
use super::window::{Have, Window};
use super::{CaptureError, CapturedFrame, LinkType, MAX_FRAME_BYTES};
use pcap_file::Endianness;
use std::time::Duration;

/// Length of the smallest section header block.
pub(super) const SECTION_HEADER_BYTES: usize = 28;
/// Largest block that is held in memory: the largest frame and its options.
const MAX_BLOCK_BYTES: usize = MAX_FRAME_BYTES + 64 * 1024;
/// Most interfaces in a section, so that a compressed file with many cannot fill the memory.
const MAX_INTERFACES: usize = 4096;
/// Type and length before the body, and length after it.
const BLOCK_FRAMING_BYTES: usize = 12;
const BLOCK_BODY_AT: usize = 8;
/// The type of a section header block is the same in either byte order.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, but found in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPTION_END: u16 = 0;
const OPTION_TS_RESOLUTION: u16 = 9;
const OPTION_TS_OFFSET: u16 = 14;

/// State of reading blocks.
pub(super) struct Blocks {
    endianness: Endianness,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// Bytes kept of each frame; 0 for all.
    snapshot_bytes: u32,
    clock: Clock,
}

/// The unit and origin of the time stamps of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// Decimal digits of a second, or with the top bit set, binary ones.
    resolution: u8,
    offset_seconds: i64,
}

/// A frame as stored in a block.
struct RawFrame<'a> {
    interface: Interface,
    ticks: u64,
    data: &'a [u8],
    original_len: u32,
}

impl Default for Blocks {
    /// The state before the section header, which sets the byte order.
    fn default() -> Self {
        Self { endianness: Endianness::Little, interfaces: Vec::new() }
    }
}

impl Blocks {
    /// Whether a section header block starts here; reads four bytes.
    pub(super) fn starts_here(bytes: &[u8]) -> bool {
        read_u32(bytes, 0, Endianness::Big) == SECTION_HEADER
    }

    /// Reads blocks up to the next one with a frame.
    pub(super) fn next_frame(
        &mut self,
        window: &mut Window,
        record: u64,
    ) -> Result<Option<CapturedFrame>, CaptureError> {
        let failed = |source| read_error(record, source);
        loop {
            match window.fill_to(BLOCK_FRAMING_BYTES).map_err(failed)? {
                Have::All => {}
                Have::Part => return Err(CaptureError::Truncated { record }),
                Have::Nothing => return Ok(None),
            }
            if Self::starts_here(window.bytes()) {
                self.start_section(window.bytes(), record)?;
            }
            let kind = read_u32(window.bytes(), 0, self.endianness);
            let claimed = read_u32(window.bytes(), 4, self.endianness);
            let block_bytes = claimed as usize;
            if !claimed.is_multiple_of(4) || block_bytes < BLOCK_FRAMING_BYTES {
                return Err(CaptureError::Malformed { record, what: "impossible block length" });
            }
            if !matches!(
                kind,
                SECTION_HEADER | INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET
            ) {
                if !window.skip(u64::from(claimed)).map_err(failed)? {
                    return Err(CaptureError::Truncated { record });
                }
                continue;
            }
            if block_bytes > MAX_BLOCK_BYTES {
                return Err(CaptureError::TooLarge { record, bytes: u64::from(claimed) });
            }
            if window.fill_to(block_bytes).map_err(failed)? != Have::All {
                return Err(CaptureError::Truncated { record });
            }
            let frame = self.read_block(kind, &window.bytes()[..block_bytes], record);
            window.consume(block_bytes);
            if let Some(frame) = frame? {
                return Ok(Some(frame));
            }
        }
    }

    /// Sets the byte order of a new section and removes the interfaces of the previous one.
    fn start_section(&mut self, bytes: &[u8], record: u64) -> Result<(), CaptureError> {
        self.endianness = match bytes.get(8..12) {
            Some([0x1a, 0x2b, 0x3c, 0x4d]) => Endianness::Big,
            Some([0x4d, 0x3c, 0x2b, 0x1a]) => Endianness::Little,
            _ => return Err(CaptureError::Malformed { record, what: "section header without a byte order" }),
        };
        self.interfaces.clear();
        Ok(())
    }

    /// Reads a complete block, including type and lengths.
    fn read_block(
        &mut self,
        kind: u32,
        block: &[u8],
        record: u64,
    ) -> Result<Option<CapturedFrame>, CaptureError> {
        let malformed = |what| CaptureError::Malformed { record, what };
        let body_end = block.len() - 4;
        if read_u32(block, body_end, self.endianness) != read_u32(block, 4, self.endianness) {
            return Err(malformed("the two lengths of a block differ"));
        }
        let body = &block[BLOCK_BODY_AT..body_end];
        let frame = match kind {
            ENHANCED_PACKET => self.packet(body, self.u32(body, 0), record)?,
            SIMPLE_PACKET => self.simple_packet(body, record)?,
            PACKET => self.packet(body, read_u16(body, 0, self.endianness).into(), record)?,
            INTERFACE_DESCRIPTION => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return Err(malformed("more interfaces than a capture can have"));
                }
                self.interfaces
                    .push(self.interface(body).ok_or(malformed("truncated interface description"))?);
                return Ok(None);
            }
            _ if block.len() < SECTION_HEADER_BYTES => return Err(malformed("truncated section header")),
            _ if read_u16(body, 4, self.endianness) != 1 => {
                return Err(malformed("unknown version of pcapng"));
            }
            _ => return Ok(None),
        };
        let Interface { link, clock, .. } = frame.interface;
        let (data, original_len) = link
            .to_ethernet(frame.data, frame.original_len)
            .ok_or(CaptureError::UnsupportedLinkType { record, link })?;
        Ok(Some(CapturedFrame { timestamp: clock.read(frame.ticks), data, original_len, link }))
    }

    /// Reads an enhanced or an obsolete packet block.
    fn packet<'a>(&self, body: &'a [u8], interface: u32, record: u64) -> Result<RawFrame<'a>, CaptureError> {
        let interface = self.interface_at(interface, record)?;
        let ticks = u64::from(self.u32(body, 4)) << 32 | u64::from(self.u32(body, 8));
        let data = frame_bytes(body, 20, self.u32(body, 12), record)?;
        Ok(RawFrame { interface, ticks, data, original_len: self.u32(body, 16) })
    }

    /// Reads a block without a time stamp, whose length follows from the snapshot length.
    fn simple_packet<'a>(&self, body: &'a [u8], record: u64) -> Result<RawFrame<'a>, CaptureError> {
        let interface = self.interface_at(0, record)?;
        let original_len = self.u32(body, 0);
        let snapshot_bytes = if interface.snapshot_bytes == 0 { u32::MAX } else { interface.snapshot_bytes };
        let data = frame_bytes(body, 4, original_len.min(snapshot_bytes), record)?;
        Ok(RawFrame { interface, ticks: 0, data, original_len })
    }

    fn interface_at(&self, number: u32, record: u64) -> Result<Interface, CaptureError> {
        let interface = self.interfaces.get(number as usize).copied();
        interface
            .ok_or(CaptureError::Malformed { record, what: "frame of an interface without a description" })
    }

    /// Reads an interface description. Only the options about time stamps are read; a truncated list or one without an end
    /// marker is accepted.
    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let (fields, mut options) = body.split_at_checked(8)?;
        let mut clock = Clock::MICROSECONDS;
        while options.len() >= 4 {
            let code = read_u16(options, 0, self.endianness);
            let value_bytes = usize::from(read_u16(options, 2, self.endianness));
            let Some(value) = options.get(4..4 + value_bytes) else { break };
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_TS_RESOLUTION, &[resolution]) => clock.resolution = resolution,
                (OPTION_TS_OFFSET, value) => {
                    if let Ok(bytes) = value.try_into() {
                        clock.offset_seconds = match self.endianness {
                            Endianness::Big => i64::from_be_bytes(bytes),
                            Endianness::Little => i64::from_le_bytes(bytes),
                        };
                    }
                }
                _ => {}
            }
            options = options.get(4 + value_bytes.next_multiple_of(4)..).unwrap_or_default();
        }
        let link = LinkType(u32::from(read_u16(fields, 0, self.endianness)));
        Some(Interface { link, snapshot_bytes: self.u32(fields, 4), clock })
    }

    fn u32(&self, bytes: &[u8], offset: usize) -> u32 {
        read_u32(bytes, offset, self.endianness)
    }
}

fn frame_bytes(body: &[u8], offset: usize, claimed: u32, record: u64) -> Result<&[u8], CaptureError> {
    if claimed as usize > MAX_FRAME_BYTES {
        return Err(CaptureError::TooLarge { record, bytes: u64::from(claimed) });
    }
    body.get(offset..)
        .and_then(|rest| rest.get(..claimed as usize))
        .ok_or(CaptureError::Malformed { record, what: "frame longer than its block" })
}

impl Clock {
    const MICROSECONDS: Self = Self { resolution: 6, offset_seconds: 0 };
    const BINARY: u8 = 0x80;
    const NANOS: u128 = 1_000_000_000;

    /// Time since 1970, rounded down to nanoseconds and limited to the range of `Duration`.
    fn read(self, ticks: u64) -> Duration {
        let ticks = u128::from(ticks);
        let exponent = u32::from(self.resolution & !Self::BINARY);
        // No overflow: 2^64 ticks times the nanoseconds of a second are less than 2^94.
        let nanos = if self.resolution & Self::BINARY == 0 {
            // None: the unit is below 10^-38 s, and 2^64 such units are less than a nanosecond.
            10_u128.checked_pow(exponent).map_or(0, |per_second| ticks * Self::NANOS / per_second)
        } else {
            (ticks * Self::NANOS).checked_shr(exponent).unwrap_or(0)
        };
        let seconds = u64::try_from(nanos / Self::NANOS).unwrap_or(u64::MAX);
        let seconds = seconds.saturating_add_signed(self.offset_seconds);
        Duration::new(seconds, (nanos % Self::NANOS) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_counts_in_decimal_or_binary_fractions_of_a_second() {
        let read = |resolution, ticks| Clock { resolution, offset_seconds: 0 }.read(ticks);
        assert_eq!(read(6, 1_500_000), Duration::from_millis(1500));
        assert_eq!(read(9, 1_500_000), Duration::from_micros(1500));
        assert_eq!(read(0, 7), Duration::from_secs(7));
        assert_eq!(read(12, 2_500), Duration::from_nanos(2));
        assert_eq!(read(0x80 | 0x0a, 1536), Duration::from_millis(1500));
        assert_eq!(read(0x80, u64::MAX), Duration::from_secs(u64::MAX));
        assert_eq!(read(127, u64::MAX), Duration::ZERO);
        assert_eq!(read(255, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn a_clock_offset_neither_overflows_nor_goes_below_1970() {
        let read = |offset_seconds| Clock { resolution: 0, offset_seconds }.read(100);
        assert_eq!(read(-40), Duration::from_secs(60));
        assert_eq!(read(i64::MIN), Duration::ZERO);
        assert_eq!(Clock { resolution: 0, offset_seconds: 1 }.read(u64::MAX), Duration::from_secs(u64::MAX));
    }
}
