//! The packets of Table II as whole TCP connections: handshake, data in both directions, close.

use super::trace::{Frame, PACKETS_OF_A_SESSION, Trace};

/// Octets of data in a frame of 67 bytes.
const DATA: u32 = 13;

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// The first sequence numbers of client and server.
const FIRST: [u32; 2] = [1_000, 5_000];

/// Octets of data of a session in both directions: rounds 2 to 16.
pub(super) const SESSION_BYTES: u64 = 15 * DATA as u64;

/// What the segments of a round say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) flags: u8,
    pub(super) has_data: bool,
}

/// The segment of a round: SYN, SYN-ACK, fifteen with data, both FINs, the last ACK.
pub(super) fn said(round: usize) -> Said {
    let mut next = FIRST;
    for number in 0..PACKETS_OF_A_SESSION {
        let from = number % 2;
        let (flags, has_data, len) = match number {
            0 => (SYN, false, 1),
            1 => (SYN | ACK, false, 1),
            2..=16 => (ACK, true, DATA),
            17 | 18 => (FIN | ACK, false, 1),
            _ => (ACK, false, 0),
        };
        if number == round {
            let acknowledgment = if number == 0 { 0 } else { next[1 - from] };
            return Said { sequence: next[from], acknowledgment, flags, has_data };
        }
        next[from] += len;
    }
    Said { sequence: 0, acknowledgment: 0, flags: 0, has_data: false } // a session has no such round
}

/// Frames of both directions, which a round is written into.
pub(super) struct Conversations {
    frames: [Vec<Frame>; 2],
}

impl Conversations {
    /// The first sessions of a trace.
    pub(super) fn new(trace: &Trace, sessions: usize) -> Self {
        Self { frames: [0, 1].map(|round| trace.round(round)[..sessions].to_vec()) }
    }

    /// Sessions.
    pub(super) fn sessions(&self) -> usize {
        self.frames[0].len()
    }

    /// The frames of a round, one of each session.
    pub(super) fn round(&mut self, round: usize) -> &[Frame] {
        let said = said(round);
        let frames = &mut self.frames[round % 2];
        for frame in frames.iter_mut() {
            write(frame, said);
        }
        frames
    }
}

/// Writes lengths and the TCP header. Checksums stay 0: they are not verified.
fn write(frame: &mut Frame, said: Said) {
    let len: u16 = if said.has_data { 40 + DATA as u16 } else { 40 };
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[38..42].copy_from_slice(&said.sequence.to_be_bytes());
    frame[42..46].copy_from_slice(&said.acknowledgment.to_be_bytes());
    frame[47] = said.flags;
    frame[48..50].copy_from_slice(&[0xFF, 0xFF]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other() {
        let of = |round| {
            let Said { sequence, acknowledgment, flags, has_data } = said(round);
            (sequence, acknowledgment, flags, has_data)
        };
        assert_eq!(of(0), (1_000, 0, SYN, false));
        assert_eq!(of(1), (5_000, 1_001, SYN | ACK, false));
        assert_eq!(of(2), (1_001, 5_001, ACK, true));
        assert_eq!(of(3), (5_001, 1_014, ACK, true));
        assert_eq!(of(17), (5_001 + 7 * 13, 1_001 + 8 * 13, FIN | ACK, false));
        assert_eq!(of(18), (1_001 + 8 * 13, 5_002 + 7 * 13, FIN | ACK, false));
        assert_eq!(of(19), (5_002 + 7 * 13, 1_002 + 8 * 13, ACK, false));
    }
}
