//! Splits a little-endian pcapng stream into blocks, so that a stored capture always ends with a complete block.

use std::io;

/// Type of the block that holds a frame.
const ENHANCED_PACKET: u32 = 6;
/// Type of the block that contains the number of lost frames.
const INTERFACE_STATISTICS: u32 = 5;
/// Longest accepted block: more than any frame and its comment.
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Bytes of type, length and repeated length.
const FRAMING_BYTES: usize = 12;

/// The state of a stream.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Bytes of an incomplete block.
    rest: Vec<u8>,
    frames: u64,
    lost: Option<u64>,
}

impl Blocks {
    /// Takes bytes; returns the blocks that became complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.rest.extend_from_slice(bytes);
        let mut whole = 0;
        while let Some(header) = self.rest.get(whole..).and_then(<[u8]>::first_chunk::<8>) {
            let &[a, b, c, d, e, f, g, h] = header;
            let (kind, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]) as usize);
            if !(FRAMING_BYTES..=MAX_BLOCK_BYTES).contains(&len) || !len.is_multiple_of(4) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a pcapng stream"));
            }
            let Some(block) = self.rest.get(whole..whole + len) else { break };
            match kind {
                ENHANCED_PACKET => self.frames += 1,
                // The option `isb_osdrop` (7) of 8 bytes follows interface and time, as the server writes it.
                INTERFACE_STATISTICS => {
                    let option = block.get(20..).and_then(<[u8]>::first_chunk::<12>);
                    if let Some(&[7, 0, 8, 0, a, b, c, d, e, f, g, h]) = option {
                        self.lost = Some(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
                    }
                }
                _ => {}
            }
            whole += len;
        }
        let rest = self.rest.split_off(whole);
        Ok(std::mem::replace(&mut self.rest, rest))
    }

    /// Frames so far.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Number of lost frames, once the stream has reported it.
    pub(super) fn lost(&self) -> Option<u64> {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::capture::{PcapNgStream, StreamDirection, StreamFrame};
    use std::time::Duration;

    #[test]
    fn blocks_are_complete_for_any_chunks() {
        let mut stream = PcapNgStream::new("a test").unwrap();
        stream.interface("a", "", 100).unwrap();
        for n in 0..3 {
            let frame = StreamFrame {
                interface: 0,
                timestamp: Duration::from_secs(n),
                data: &[7; 61],
                original_len: 61,
                direction: StreamDirection::Inbound,
                comment: Some("a comment"),
            };
            stream.frame(&frame).unwrap();
        }
        stream.lost(0, Duration::from_secs(9), 42).unwrap();
        let bytes = stream.take();
        for step in [1, 7, 64, bytes.len()] {
            let (mut blocks, mut out) = (Blocks::default(), Vec::new());
            for piece in bytes.chunks(step) {
                let before = blocks.frames();
                let whole = blocks.feed(piece).unwrap();
                assert!(!whole.is_empty() || blocks.frames() == before);
                out.extend(whole);
            }
            assert_eq!(out, bytes);
            assert_eq!((blocks.frames(), blocks.lost()), (3, Some(42)));
        }
        let mut blocks = Blocks::default();
        let whole = blocks.feed(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((whole.len() + blocks.rest.len(), blocks.lost()), (bytes.len() - 1, None));
        assert!(Blocks::default().feed(b"{\"error\":\"no\"}").is_err());
    }
}
