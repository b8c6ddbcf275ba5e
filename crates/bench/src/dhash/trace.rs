//! Table II's packets. Each session has 20 packets, and between two of them come those of all other sessions: the
//! worst order for a cache. So the trace is 20 rounds over all sessions. The first round begins sessions, the last
//! ends them, and directions alternate.

use scalebricks_tables::dhash::{Direction, FlowKey, Key4};
use scalebricks_types::mix::SplitMix64;
use std::collections::HashSet;

/// Packets of a session.
pub(crate) const PACKETS_OF_A_SESSION: usize = 20;

/// Bytes of a frame: the paper's mean.
pub(super) const FRAME_BYTES: usize = 67;

/// A frame: Ethernet, IPv4 and TCP headers, and 13 bytes.
pub(super) type Frame = [u8; FRAME_BYTES];

/// How sessions are numbered. The paper took those of a campus and of a laboratory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// Half of the sessions are between 32 clients and 64 servers of a laboratory, half between 16,384 clients of a
    /// campus, more of them with low addresses, and 4,096 servers in 256 subnets. There are five server ports, and
    /// client ports come in order.
    Structured,
    /// Everything random.
    Random,
}

impl Ids {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Structured => "structured sessions",
            Self::Random => "random sessions",
        }
    }
}

/// The packets of one round in each direction, and the sessions.
pub(super) struct Trace {
    pub(super) ids: Ids,
    /// The key of each session's first packet.
    pub(super) keys: Vec<Key4>,
    frames: [Vec<Frame>; 2],
}

impl Trace {
    /// A trace of so many sessions, at most 2^30.
    pub(super) fn new(sessions: usize, ids: Ids) -> Self {
        let (mut random, mut seen) = (SplitMix64(0x0D4A_5400), HashSet::with_capacity(sessions));
        let mut keys = Vec::with_capacity(sessions);
        while keys.len() < sessions {
            let key = match ids {
                Ids::Structured => structured(&mut random, keys.len()),
                Ids::Random => {
                    let (addresses, ports) = (random.next_u64(), random.next_u64());
                    let (source, destination) = ((addresses >> 32) as u32, addresses as u32);
                    Key4::new(source.into(), destination.into(), 6, ports as u16, (ports >> 16) as u16, 0)
                }
            };
            let (words, is_swapped) = key.canonical();
            // A session with two equal ends has one direction.
            if key.reversed().canonical().1 != is_swapped && seen.insert(words) {
                keys.push(key);
            }
        }
        let frames = [false, true].map(|is_reply| {
            let of = |key: &Key4| frame(&if is_reply { key.reversed() } else { *key });
            keys.iter().map(of).collect()
        });
        Self { ids, keys, frames }
    }

    pub(super) fn sessions(&self) -> usize {
        self.keys.len()
    }

    /// The packets of a round, one of each session in the order of sessions.
    pub(super) fn round(&self, round: usize) -> &[Frame] {
        &self.frames[round % 2]
    }
}

/// The direction of a round's packets.
pub(super) const fn direction(round: usize) -> Direction {
    if round.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse }
}

fn structured(random: &mut SplitMix64, number: usize) -> Key4 {
    const PORTS: [u16; 8] = [80, 80, 80, 443, 443, 53, 25, 8080];
    let word = random.next_u64();
    let bits = |from: u32, count: u32| (word >> from) as u32 & ((1 << count) - 1);
    let (client, server) = if number.is_multiple_of(2) {
        (0xAC10_7000 | bits(0, 5), 0xC0A8_0100 | bits(16, 6))
    } else {
        (0xA66F_0000 | bits(0, 14).min(bits(16, 14)), 0xCA00_0000 | bits(32, 8) << 12 | (bits(40, 4) + 1))
    };
    let port = 1024 + (number / 2 % 60_000) as u16;
    Key4::new(client.into(), server.into(), 6, port, PORTS[bits(44, 3) as usize], 0)
}

/// A frame with this key.
fn frame(key: &Key4) -> Frame {
    let mut frame = [0; FRAME_BYTES];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = (FRAME_BYTES - 14) as u8;
    (frame[22], frame[23]) = (64, key.protocol());
    frame[26..30].copy_from_slice(&key.source().to_be_bytes());
    frame[30..34].copy_from_slice(&key.destination().to_be_bytes());
    frame[34..36].copy_from_slice(&key.source_port().to_be_bytes());
    frame[36..38].copy_from_slice(&key.destination_port().to_be_bytes());
    frame[46] = 5 << 4;
    frame
}

/// The key of a frame. Like the paper's lookup, it takes the frame for what it is.
#[inline(always)]
pub(super) fn key_of(frame: &Frame) -> Key4 {
    let address = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    Key4::new(address(26).into(), address(30).into(), frame[23], port(34), port(36), 0)
}
