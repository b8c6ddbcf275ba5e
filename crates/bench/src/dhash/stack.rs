//! The whole stack: packets of TCP connections parsed, tracked and their streams put in order; its stages; two cores.
//!
//! A stage's cost is the difference of two loops over the same packets, with and without it. The ranges of both add up.

use super::contender::SECRET;
use super::conversation::{Conversations, SESSION_BYTES};
use super::trace::{Frame, Ids, PACKETS_OF_A_SESSION, Trace};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric, SelectRows};
use crate::timing::{self, Clock};
use scalebricks_elements::ring;
use scalebricks_flows::fragments::{self, Defragmented, Defragmenter};
use scalebricks_flows::reassembly::Chunk;
use scalebricks_flows::tcp::{State, Timeouts};
use scalebricks_flows::tracker::{self, Balancer, Config, Ended, Event, Packet, Sink, Tables, Tracker};
use scalebricks_flows::{Direction, tcp};
use scalebricks_report::stats::Summary;
use scalebricks_tables::dhash::Signature;
use scalebricks_wire::{parse_frame, parse_ip};
use std::hint::black_box;
use std::time::Duration;

/// The structure of rows of the whole stack.
pub(crate) const STACK: &str = "stack";

/// The structure of rows of single stages.
pub(crate) const STAGE: &str = "stage";

/// Stages, as variants of their rows: Table III. `scalebricks plan flows` reads these names.
pub(crate) const STAGES: [&str; 5] = ["capture read", "load balance", "FIFO", "L3", "TCP"];

/// Variants of rows of the whole stack.
pub(crate) const ONE_CORE: &str = "1 core";
pub(crate) const TWO_CORES: &str = "2 cores, each with half of the sessions";
pub(crate) const PIPELINE: &str = "2 cores, 1 input and 1 application";

/// The structure of loops that the stages are differences of.
const LOOP: &str = "stage loop";

/// Packets per call.
const BATCH: usize = 32;

/// Packets that a ring holds.
const RING: usize = 1_024;

/// Rounds of a loop over the packets of one stage.
const ROUNDS: usize = 4;

/// Most bytes of all rounds that are kept in memory at once, so that short rounds are timed together.
const MOST_FRAMES: usize = 1 << 20;

/// Sessions of Table I besides those of the trace.
pub(crate) const TABLE_1: [u64; 2] = [10, 131_072];

/// A measurement; the state is unused.
type Turn<'a> = Measurement<'a, ()>;

/// Counts what the tracker delivers and ends.
#[derive(Debug, Default)]
struct Delivered {
    bytes: u64,
    gaps: u64,
    closed: u64,
}

impl Sink for Delivered {
    fn chunk(&mut self, _: u64, _: Direction, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Data { bytes, .. } => self.bytes += bytes.len() as u64,
            Chunk::Gap(_) => self.gaps += 1,
        }
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.closed += u64::from(ended.state == tracker::State::Tcp(State::TimeWait));
    }
}

/// A tracker of so many sessions, with streams, and closed connections forgotten by the next sweep.
pub(super) fn tracker(sessions: usize, signature: Signature) -> Result<Tracker, BenchError> {
    let most = sessions as u32; // below 2^30
    let timeouts = Timeouts { time_wait: Duration::ZERO, ..Timeouts::default() };
    let config = Config {
        tcp: tcp::Config { timeouts, ..tcp::Config::default() },
        flows: most,
        young_flows: most,
        grows: false,
        signature,
        ..Config::default()
    };
    Tracker::new(&config, SECRET, Tables::default()).of(STACK)
}

/// The IP packet of a frame.
#[inline(always)]
fn ip_packet(frame: &Frame) -> &[u8] {
    parse_frame(frame).map_or(&[][..], |header| &frame[header.l3_offset..])
}

/// Tracks packets. The sweeping hand passes a record per packet.
fn track(tracker: &mut Tracker, frames: &[Frame], now: Duration, sink: &mut impl Sink) {
    let mut packets = [Packet { bytes: &[], zone: 0, now }; BATCH];
    for frames in frames.chunks(BATCH) {
        for (packet, frame) in packets.iter_mut().zip(frames) {
            packet.bytes = ip_packet(frame);
        }
        tracker.track_batch(&packets[..frames.len()], sink, |_, _, _, _| {});
        tracker.sweep(now, frames.len(), sink);
    }
}

/// Plays whole connections. Returns the seconds that the tracker took. Everything that it says is checked.
fn play(conversations: &mut Conversations, signature: Signature) -> Result<f64, BenchError> {
    let sessions = conversations.sessions();
    let mut tracker = tracker(sessions, signature)?;
    let mut delivered = Delivered::default();
    let mut now = Duration::from_secs(1);
    let clock = Clock::chosen();
    let all = sessions * PACKETS_OF_A_SESSION;
    let (times, seconds) = if all <= MOST_FRAMES {
        let rounds: Vec<Vec<Frame>> =
            (0..PACKETS_OF_A_SESSION).map(|round| conversations.round(round).to_vec()).collect();
        let times = (MOST_FRAMES / all / 4).max(1);
        let start = clock.now();
        for _ in 0..times {
            for frames in &rounds {
                now += Duration::from_secs(1);
                track(&mut tracker, frames, now, &mut delivered);
            }
        }
        (times, clock.now().saturating_sub(start).as_secs_f64())
    } else {
        let mut seconds = 0.0;
        for round in 0..PACKETS_OF_A_SESSION {
            let frames = conversations.round(round);
            now += Duration::from_secs(1);
            let start = clock.now();
            track(&mut tracker, frames, now, &mut delivered);
            seconds += clock.now().saturating_sub(start).as_secs_f64();
        }
        (1, seconds)
    };
    tracker.finish(&mut delivered);
    let (packets, flows) = ((all * times) as u64, (sessions * times) as u64);
    let tracked = tracker.events().get(Event::Tracked);
    ensure(tracked == packets, STACK, || format!("{tracked} of {packets} packets are tracked"))?;
    ensure(delivered.bytes == flows * SESSION_BYTES && delivered.gaps == 0, STACK, || {
        format!("{} bytes of streams, not {}", delivered.bytes, flows * SESSION_BYTES)
    })?;
    ensure(delivered.closed == flows, STACK, || {
        format!("{} of {flows} connections closed", delivered.closed)
    })?;
    Ok(seconds / packets as f64)
}

/// Measures everything.
///
/// # Errors
/// [`BenchError`]; a packet that is not tracked is one.
pub(super) fn run(bench: &mut BenchRun<'_>, traces: &[Trace]) -> Result<(), BenchError> {
    let Some(trace) = traces.iter().find(|trace| trace.ids == Ids::Structured) else { return Ok(()) };
    let all = trace.sessions();
    let file_1 = (all / 4).max(1);
    let mut turns = Vec::new();
    let table_1 = TABLE_1.map(|sessions| (sessions as usize).min(all));
    let mut sizes = vec![table_1[0], table_1[1], file_1, all / 2, all];
    sizes.sort_unstable();
    sizes.dedup();
    for sessions in sizes {
        turns.push(stack(bench, trace, sessions, None));
    }
    turns.extend(Signature::ALL.map(|signature| stack(bench, trace, file_1, Some(signature))));
    turns.extend(loops(bench, trace, file_1));
    interleave(bench, &mut (), turns)?;
    stages(bench, file_1)?;
    two_cores(bench, trace, file_1)
}

/// The whole stack with the default signature, or for the comparison of signatures.
fn stack<'a>(
    bench: &BenchRun<'_>,
    trace: &'a Trace,
    sessions: usize,
    compared: Option<Signature>,
) -> Turn<'a> {
    let case = bench.case(STACK, sessions as u64).variant(ONE_CORE.to_owned()).threads(1).batch(BATCH);
    let case = case.format(compared.map(Signature::name));
    let signature = compared.unwrap_or_default();
    Measurement::new(case, Metric::PacketRate, move |()| {
        let mut conversations = Conversations::new(trace, sessions);
        let (seconds, _) = timing::pinned(|| play(&mut conversations, signature))?;
        Ok((1.0 / seconds?).into())
    })
}

/// Case of a loop.
fn loop_case(bench: &BenchRun<'_>, stage: &str, sessions: usize) -> Case {
    bench.case(LOOP, sessions as u64).variant(stage.to_owned()).threads(1)
}

/// The loops without the tracker: reading, reading and balancing, reading and IP, and the ring alone.
fn loops<'a>(bench: &BenchRun<'_>, trace: &'a Trace, sessions: usize) -> Vec<Turn<'a>> {
    let time = move |stage: &'static str, work: fn(&[Frame]) -> u64| {
        move |(): &mut ()| -> Result<RunResult, BenchError> {
            let (done, seconds) = timing::pinned(|| {
                (0..ROUNDS).map(|round| work(&trace.round(round)[..sessions])).sum::<u64>()
            })?;
            let packets = sessions * ROUNDS;
            ensure(done == packets as u64, STAGE, || format!("{stage}: {done} of {packets} packets"))?;
            Ok((timing::net(stage, seconds, 0.0)? / packets as f64 * 1e9).into())
        }
    };
    let [capture, balance, fifo, l3, _] = STAGES;
    let turn = |stage: &'static str, work: fn(&[Frame]) -> u64| {
        Measurement::new(loop_case(bench, stage, sessions), Metric::PacketTime, time(stage, work))
    };
    vec![
        turn(capture, |frames| {
            frames.iter().map(|frame| u64::from(!black_box(ip_packet(frame)).is_empty())).sum()
        }),
        turn(balance, |frames| {
            let mut balancer = Balancer::new(7, SECRET, fragments::Config::default(), false);
            let mut take = |frame: &Frame| {
                let to = balancer.take(ip_packet(frame), 0, Duration::ZERO);
                to.is_ok_and(|to| black_box(to).pipeline < 7)
            };
            frames.iter().map(|frame| u64::from(take(frame))).sum()
        }),
        turn(fifo, |frames| {
            let (mut near, mut far) = ring(RING);
            let mut passed = 0;
            for frames in frames.chunks(BATCH) {
                for frame in frames {
                    let _ = near.push(frame); // what is lost is missed below
                }
                let out = std::iter::from_fn(|| far.pop().ok());
                passed += out.map(|frame: &Frame| u64::from(black_box(frame)[14] == 0x45)).sum::<u64>();
            }
            passed
        }),
        turn(l3, |frames| {
            let mut defragmenter = Defragmenter::new(fragments::Config::default());
            let mut pass = |frame: &Frame| {
                let Ok(packet) = parse_ip(ip_packet(frame)) else { return false };
                defragmenter.add(packet.bytes(), &packet.summary, Duration::ZERO) == Defragmented::NoFragment
            };
            frames.iter().map(|frame| u64::from(black_box(pass(frame)))).sum()
        }),
    ]
}

/// A figure minus another one that is part of it.
fn less(whole: Summary, part: Summary) -> Summary {
    Summary {
        median: (whole.median - part.median).max(0.0),
        min: (whole.min - part.max).max(0.0),
        max: (whole.max - part.min).max(0.0),
        runs: whole.runs.min(part.runs),
    }
}

/// Table III's rows from those of the loops.
fn stages(bench: &mut BenchRun<'_>, sessions: usize) -> Result<(), BenchError> {
    let keys = sessions as u64;
    let of = |rows: &[crate::row::Row], structure: &str, variant: &str| {
        let mut found = rows.iter().structure(structure).keys(keys);
        let row = found.find(|row| row.case.is_variant(variant) && row.case.format.is_none());
        row.map(|row| Summary { median: row.median, min: row.min, max: row.max, runs: row.runs })
            .ok_or_else(|| BenchError::check(STAGE, format!("{structure}, {variant} is not measured")))
    };
    let [capture, balance, fifo, l3, _] = STAGES;
    let rows = bench.rows();
    let [read, balanced, passed, parsed] = [capture, balance, fifo, l3].map(|stage| of(rows, LOOP, stage));
    let (read, parsed) = (read?, parsed?);
    let rate = of(rows, STACK, ONE_CORE)?;
    let whole =
        Summary { median: 1e9 / rate.median, min: 1e9 / rate.max, max: 1e9 / rate.min, runs: rate.runs };
    let passed = passed?;
    // A packet passes both ends of the ring; the formula counts one end.
    let end = Summary { median: passed.median / 2.0, min: passed.min / 2.0, max: passed.max / 2.0, ..passed };
    let costs = [read, less(balanced?, read), end, less(parsed, read), less(whole, parsed)];
    for (stage, cost) in STAGES.into_iter().zip(costs) {
        let case = bench.case(STAGE, keys).variant(stage.to_owned()).threads(1);
        bench.add(case, Metric::PacketTime, cost);
    }
    Ok(())
}

/// Two cores: each with half of the sessions, and one that reads and balances for the other. Rounds of packets are written
/// between the timed parts.
fn two_cores(bench: &mut BenchRun<'_>, trace: &Trace, sessions: usize) -> Result<(), BenchError> {
    if crate::pin::cores() < 2 || sessions < 2 {
        return Ok(());
    }
    crate::pair::CorePair::settle()?;
    let case = |variant: &str| {
        bench.case(STACK, sessions as u64).variant(variant.to_owned()).threads(2).batch(BATCH)
    };
    let halves = move |(): &mut ()| -> Result<RunResult, BenchError> {
        let half = sessions / 2;
        let mut conversations = Conversations::new(trace, half * 2);
        let mut trackers = [tracker(half, Signature::Keyed)?, tracker(half, Signature::Keyed)?];
        let seconds = rounds(&mut conversations, |frames, now| {
            let works = trackers.iter_mut().zip(frames.chunks(half));
            let works = works.map(|(tracker, frames)| move || track(tracker, frames, now, &mut ())).collect();
            timing::together(TWO_CORES, works)
        })?;
        let tracked = trackers.iter().map(|tracker| tracker.events().get(Event::Tracked)).sum();
        rate(tracked, half * 2, seconds)
    };
    let pipeline = move |(): &mut ()| -> Result<RunResult, BenchError> {
        let mut conversations = Conversations::new(trace, sessions);
        let mut tracker = tracker(sessions, Signature::Keyed)?;
        let seconds = rounds(&mut conversations, |frames, now| pass(&mut tracker, frames, now))?;
        rate(tracker.events().get(Event::Tracked), sessions, seconds)
    };
    let turns = vec![
        Measurement::new(case(TWO_CORES), Metric::PacketRate, halves),
        Measurement::new(case(PIPELINE), Metric::PacketRate, pipeline),
    ];
    interleave(bench, &mut (), turns)
}

/// The sum of the times of all rounds.
fn rounds(
    conversations: &mut Conversations,
    mut time: impl FnMut(&[Frame], Duration) -> Result<f64, BenchError>,
) -> Result<f64, BenchError> {
    let mut seconds = 0.0;
    for round in 0..PACKETS_OF_A_SESSION {
        let now = Duration::from_secs(2 + round as u64);
        seconds += time(conversations.round(round), now)?;
    }
    Ok(seconds)
}

fn rate(tracked: u64, sessions: usize, seconds: f64) -> Result<RunResult, BenchError> {
    let packets = sessions * PACKETS_OF_A_SESSION;
    ensure(tracked == packets as u64, STACK, || format!("{tracked} of {packets} packets are tracked"))?;
    timing::rate(STACK, packets, seconds).map(Into::into)
}

/// Passes packets from an input core to an application core. The input waits for a full ring: it measures the slower core.
fn pass(tracker: &mut Tracker, frames: &[Frame], now: Duration) -> Result<f64, BenchError> {
    let (mut near, mut far) = ring::<&[u8]>(RING);
    let input = move || {
        let mut balancer = Balancer::new(1, SECRET, fragments::Config::default(), false);
        for frame in frames {
            let packet = ip_packet(frame);
            if balancer.take(packet, 0, now).is_ok_and(|to| black_box(to).pipeline == 0) {
                while near.push(packet).is_err() {
                    std::hint::spin_loop();
                }
            }
        }
    };
    let application = move || {
        let mut packets = [Packet { bytes: &[], zone: 0, now }; BATCH];
        loop {
            let taken = packets.iter_mut().map_while(|packet| {
                packet.bytes = far.pop().ok()?;
                Some(())
            });
            let count = taken.count();
            if count == 0 {
                if far.is_abandoned() && far.is_empty() {
                    return;
                }
                std::hint::spin_loop();
                continue;
            }
            tracker.track_batch(&packets[..count], &mut (), |_, _, _, ()| {});
            tracker.sweep(now, count, &mut ());
        }
    };
    let works: Vec<Box<dyn FnOnce() + Send + '_>> = vec![Box::new(input), Box::new(application)];
    timing::together(PIPELINE, works)
}
