//! A synthetic mix of flows, as on a backbone line: many flows at once, sizes with a heavy tail, and packets in the bursts
//! that TCP sends once per round trip. A function of its seed.

use crate::router::routes::hash;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Frame lengths of the simple IMIX, 7:4:1, as full packets of bulk flows and small ones of others make them.
const SMALL_BYTES: usize = 64;
const MEDIUM_BYTES: usize = 594;
const LARGE_BYTES: usize = 1_514;

/// Shortest and longest round trip, nanoseconds: log-uniform, so one in five is longer than 100 ms.
const ROUND_TRIP: [f64; 2] = [10e6, 200e6];

/// Slowest and fastest access line of a sender, bytes per second: log-uniform, 1 to 100 Mb/s.
const ACCESS: [f64; 2] = [0.125e6, 12.5e6];

/// Largest window, packets.
const MAX_WINDOW: u64 = 32;

/// The exponent of the Pareto distribution of flow sizes, and the fewest and most packets of a flow.
const PARETO: f64 = 1.2;
const FLOW_PACKETS: [f64; 2] = [2.0, 50_000.0];

/// A packet of the mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixPacket {
    /// When it has arrived on the line.
    pub at: Duration,
    /// Its flow.
    pub flow: u64,
    /// Its place in the flow, from 0 on.
    pub number: u64,
    /// Length of its frame.
    pub bytes: usize,
}

/// A flow that is sending.
#[derive(Debug, Clone, Copy)]
struct Flow {
    id: u64,
    sent: u64,
    total: u64,
    window: u64,
    round_trip_ns: u64,
    /// Nanoseconds per byte of its access line, in thousandths.
    byte_picos: u64,
    /// Whether its packets are large.
    is_bulk: bool,
}

/// The packets of a line, in order of time; endless. Cost per packet: a step in a heap of all flows.
#[derive(Debug, Clone)]
pub struct Mix {
    seed: u64,
    line_rate: u64,
    flows: Vec<Flow>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    next_id: u64,
    line_free_ns: u64,
}

/// A number from one to another, uniform on a logarithmic scale.
fn log_uniform(random: u64, [from, to]: [f64; 2]) -> f64 {
    from * (to / from).powf(unit(random))
}

/// From 0 to 1.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// The whole part of a number that is not negative.
#[expect(clippy::cast_sign_loss, reason = "the caller's number is not negative")]
const fn whole(number: f64) -> u64 {
    number as u64
}

impl Flow {
    fn new(seed: u64, id: u64) -> Self {
        let random = |salt: u64| hash(seed.wrapping_add(salt), id);
        let [least, most] = FLOW_PACKETS;
        let total = whole((least * (1.0 - unit(random(1))).powf(-1.0 / PARETO)).min(most));
        Self {
            id,
            sent: 0,
            total,
            // A short flow ends in slow start.
            window: (1 + random(2) % MAX_WINDOW).min(total),
            round_trip_ns: whole(log_uniform(random(3), ROUND_TRIP)),
            byte_picos: whole(1e12 / log_uniform(random(4), ACCESS)),
            is_bulk: random(5) % 2 == 0,
        }
    }

    fn bytes(&self, seed: u64) -> usize {
        match (self.is_bulk, hash(seed ^ self.id.rotate_left(32), self.sent) % 12) {
            (true, 0..9) => LARGE_BYTES,
            (false, 0..8) => SMALL_BYTES,
            _ => MEDIUM_BYTES,
        }
    }

    /// The bytes that it will send, on average, and how long that takes, seconds.
    fn size_and_time(&self) -> (f64, f64) {
        let mean_bytes = if self.is_bulk {
            0.75 * LARGE_BYTES as f64 + 0.25 * MEDIUM_BYTES as f64
        } else {
            (2.0 * SMALL_BYTES as f64 + MEDIUM_BYTES as f64) / 3.0
        };
        let window_s = self.window as f64 * mean_bytes * self.byte_picos as f64 / 1e12;
        let rounds = self.total.div_ceil(self.window) as f64;
        (self.total as f64 * mean_bytes, rounds * window_s.max(self.round_trip_ns as f64 / 1e9))
    }
}

/// Flows of which the mean is taken.
const SAMPLE: u64 = 8_192;

/// The mean rate of a sender that begins a new flow whenever one ends, bytes per second.
fn mean_rate(seed: u64) -> f64 {
    let all = (0..SAMPLE).map(|at| Flow::new(seed, u64::MAX - at).size_and_time());
    let (bytes, seconds) =
        all.fold((0.0, 0.0), |(bytes, seconds), (more, longer)| (bytes + more, seconds + longer));
    bytes / seconds
}

impl Mix {
    /// A line of this capacity, loaded with as many flows at once as send about `load` bytes per second in the long run.
    pub fn new(line_rate: u64, load: u64, seed: u64) -> Self {
        let mut mix =
            Self { seed, line_rate, flows: Vec::new(), due: BinaryHeap::new(), next_id: 0, line_free_ns: 0 };
        let senders = whole((load as f64 / mean_rate(seed)).ceil()) as usize;
        for at in 0..senders {
            let flow = mix.new_flow();
            // Flows are anywhere in their round trip at first.
            mix.due.push(Reverse((hash(seed, !flow.id) % flow.round_trip_ns, at)));
            mix.flows.push(flow);
        }
        mix
    }

    fn new_flow(&mut self) -> Flow {
        self.next_id += 1;
        Flow::new(self.seed, self.next_id)
    }

    /// Number of flows that send at once.
    pub fn concurrent(&self) -> usize {
        self.flows.len()
    }
}

impl Iterator for Mix {
    type Item = MixPacket;

    fn next(&mut self) -> Option<MixPacket> {
        let Reverse((due, at)) = self.due.pop()?;
        let mut flow = *self.flows.get(at)?;
        let bytes = flow.bytes(self.seed);
        // The line passes one packet at a time.
        let time = bytes as u64 * 1_000_000_000 / self.line_rate.max(1);
        self.line_free_ns = self.line_free_ns.max(due) + time;
        let packet = MixPacket {
            at: Duration::from_nanos(self.line_free_ns),
            flow: flow.id,
            number: flow.sent,
            bytes,
        };
        flow.sent += 1;
        let spacing = bytes as u64 * flow.byte_picos / 1_000;
        let next = if flow.sent >= flow.total {
            let round_trip = flow.round_trip_ns;
            flow = self.new_flow();
            due + round_trip
        } else if flow.sent % flow.window == 0 {
            due + spacing.max(flow.round_trip_ns.saturating_sub(spacing * (flow.window - 1)))
        } else {
            due + spacing
        };
        self.flows[at] = flow;
        self.due.push(Reverse((next, at)));
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn flows_are_in_order_and_the_line_is_not_exceeded() {
        let rate = 12_500_000;
        let mix = Mix::new(rate, rate / 2, 1);
        let again: Vec<MixPacket> = mix.clone().take(1_000).collect();
        assert_eq!(mix.clone().take(1_000).collect::<Vec<_>>(), again);
        let (mut bytes, mut numbers, mut last) = (0, HashMap::<u64, u64>::new(), Duration::ZERO);
        for packet in mix.take(60_000) {
            let next = numbers.entry(packet.flow).or_default();
            assert_eq!(packet.number, *next);
            *next += 1;
            assert!(
                packet.at.saturating_sub(last)
                    >= Duration::from_nanos(packet.bytes as u64 * 1_000_000_000 / rate),
                "{packet:?}"
            );
            last = packet.at;
            bytes += packet.bytes;
        }
        let load = bytes as f64 / last.as_secs_f64() / rate as f64;
        assert!((0.3..0.8).contains(&load), "{load}");
        let longest = numbers.values().max().unwrap();
        assert!(numbers.len() > 500 && *longest > 500, "{} flows, the longest of {longest}", numbers.len());
    }
}
