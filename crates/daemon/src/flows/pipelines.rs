//! Flows on several cores.
//!
//! ```text
//! capture, ports ─▶ balancer ─┬═ ring ═▶ tracker ─┬─▶ merge ─▶ the same output as one core's
//!  (one thread)               └═ ring ═▶ tracker ─┘   (the caller's thread)
//! ```
//!
//! The input waits for a full ring. A capture can wait; the buffers of a port fill meanwhile, and what does not fit is counted
//! as dropped by the port. Each tracker says with which packet an event
//! came. The merge puts the events of all trackers into the order of packets, and numbers the flows by their first packets,
//! so that log, streams and summary are those of one core. Flows that only end with the input come in another order. Limits
//! are divided among the cores, so results differ once one is reached.
//!
//! After a stride of packets, and at each tick of a live input, all trackers hand over their events. A tracker that is two strides ahead of the merge waits. So
//! memory is bounded by rings and strides.

use super::input::{Arrival, Bounds, Input, Stopped, Tick};
use super::live::{Ranking, Report, Talkers, View, ip_len};
use super::summary::{Frames, Totals};
use super::{Job, Output, SWEEP, Tracked};
use crate::error::ProcessError;
use scalebricks_console::Interrupt;
use scalebricks_elements::{Consumer, Producer, PushError, ring};
use scalebricks_flows::Direction;
use scalebricks_flows::reassembly::{self, Chunk, Gap, Stream};
use scalebricks_flows::tcp::{Anomaly, Connection};
use scalebricks_flows::tracker::{Balancer, Config, EndCause, Ended, Flow, Sink, State, Tables, Tracker};
use scalebricks_types::{FiveTuple, HashSeed};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Packets that a ring holds.
const RING: usize = 1_024;

/// Packets between two hand-overs of events.
const STRIDE: u64 = 4_096;

/// Hand-overs of a tracker that wait for the merge.
const AHEAD: usize = 2;

/// Empty polls before a thread sleeps.
const POLLS: u32 = 64;

/// Sleep between polls after that.
const NAP: Duration = Duration::from_micros(50);

/// What a ring carries.
enum Parcel {
    Packet {
        number: u64,
        at: Duration,
        bytes: Box<[u8]>,
    },
    /// A stride is over, or a tick: hand over the events.
    Stride(Option<Tick>),
    /// The input has ended, with a packet at this time.
    End(Duration),
}

/// What a tracker said while it took a packet.
struct Event {
    packet: u64,
    serial: u64,
    what: What,
}

enum What {
    Began,
    Data { direction: Direction, offset: u64, bytes: Box<[u8]> },
    Gap { direction: Direction, gap: Gap },
    Anomaly(Anomaly),
    Active(Box<EndedFlow>),
    Ended(Box<EndedFlow>),
}

/// What a tracker hands over after a stride.
#[derive(Default)]
struct Handover {
    events: Vec<Event>,
    /// The stride ended with a tick.
    is_tick: bool,
    /// To be shown.
    report: Option<Report>,
}

/// An [`Ended`] that outlives its flow.
struct EndedFlow {
    tuple: FiveTuple,
    zone: u16,
    flow: Flow,
    state: State,
    connection: Option<Connection>,
    streams: Option<[Stream; 2]>,
    cause: EndCause,
}

impl EndedFlow {
    fn of(ended: &Ended<'_>) -> Box<Self> {
        let &Ended { tuple, zone, flow, state, connection, streams, cause } = ended;
        let (connection, streams) = (connection.copied(), streams.copied());
        Box::new(Self { tuple, zone, flow: *flow, state, connection, streams, cause })
    }

    /// Calls `take` with it, under another number.
    fn with_number(self, number: u64, take: impl FnOnce(&Ended<'_>)) {
        let Self { tuple, zone, mut flow, state, connection, streams, cause } = self;
        flow.serial = number;
        let (connection, streams) = (connection.as_ref(), streams.as_ref());
        take(&Ended { tuple, zone, flow: &flow, state, connection, streams, cause });
    }
}

/// The events since the last hand-over.
struct Events {
    packet: u64,
    has_streams: bool,
    list: Vec<Event>,
}

impl Events {
    fn add(&mut self, serial: u64, what: What) {
        self.list.push(Event { packet: self.packet, serial, what });
    }
}

impl Sink for Events {
    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        if self.has_streams {
            self.add(
                serial,
                match chunk {
                    Chunk::Data { offset, bytes } => What::Data { direction, offset, bytes: bytes.into() },
                    Chunk::Gap(gap) => What::Gap { direction, gap },
                },
            );
        }
    }

    fn anomaly(&mut self, serial: u64, anomaly: Anomaly) {
        self.add(serial, What::Anomaly(anomaly));
    }

    fn active(&mut self, so_far: &Ended<'_>) {
        self.add(so_far.flow.serial, What::Active(EndedFlow::of(so_far)));
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.add(ended.flow.serial, What::Ended(EndedFlow::of(ended)));
    }
}

/// A core's share of the limits.
fn share(config: &Config, cores: u32) -> Config {
    let reassembly = config.reassembly.map(|streams| reassembly::Config {
        total_bytes: (streams.total_bytes / u64::from(cores)).max(1),
        ..streams
    });
    Config {
        flows: config.flows.div_ceil(cores),
        young_flows: config.young_flows.div_ceil(cores),
        reassembly,
        ..*config
    }
}

/// Tracks flows on so many cores, and the input on one more.
///
/// # Errors
/// [`ProcessError`] if a tracker cannot be made, or a thread has failed.
pub(super) fn track(job: Job<'_>, secret: HashSeed, cores: u32) -> Result<Tracked, ProcessError> {
    let Job { input, bounds, config, output, frames, mut view, interrupt } = job;
    let own = share(&config, cores);
    let mut balancer = Balancer::new(cores, secret, config.fragments, config.verify_checksums);
    let mut trackers = Vec::new();
    for _ in 0..cores {
        trackers.push(Tracker::new(&own, secret, Tables::default())?);
    }
    let has_streams = output.has_streams();
    let ranking = view.as_ref().map(View::ranking);
    let (balanced, tracked) = std::thread::scope(|scope| {
        let (mut rings, mut results, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for tracker in trackers {
            let (near, far) = ring(RING);
            let (sender, receiver) = sync_channel(AHEAD);
            rings.push(near);
            results.push(receiver);
            threads.push(scope.spawn(move || application(tracker, far, &sender, (has_streams, ranking))));
        }
        let balancer = &mut balancer;
        let reading = scope.spawn(move || feed(input, &bounds, balancer, rings, frames, interrupt));
        merge(&results, output, view.as_mut());
        // After an error of writing, the trackers find nobody who takes their events, and the input nobody at the rings.
        drop(results);
        let tracked: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (reading.join(), tracked)
    });
    let failed = |_| ProcessError::Usage("a thread of the flow trackers has failed".to_owned());
    let mut totals = Totals::default();
    totals.add_balancer(&balancer);
    for tracker in tracked {
        totals.add(&tracker.map_err(failed)?);
    }
    Ok((totals, balanced.map_err(failed)?))
}

/// Waits a little longer each time.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        self.0 += 1;
        if self.0 > POLLS { std::thread::sleep(NAP) } else { std::thread::yield_now() }
    }
}

/// Puts a parcel into a ring; `false` if nobody is at its other end.
fn put(ring: &mut Producer<Parcel>, mut parcel: Parcel) -> bool {
    let mut patience = Patience::default();
    loop {
        match ring.push(parcel) {
            Ok(()) => return true,
            Err(_) if ring.is_abandoned() => return false,
            Err(PushError::Full(back)) => parcel = back,
        }
        patience.wait();
    }
}

/// Reads the input, and gives each packet to its tracker.
fn feed(
    input: Input,
    bounds: &Bounds,
    balancer: &mut Balancer,
    mut rings: Vec<Producer<Parcel>>,
    frames: &mut Frames,
    interrupt: &Interrupt,
) -> Result<(), Stopped> {
    let (mut number, mut last) = (0_u64, Duration::ZERO);
    let ended = input.read(bounds, frames, interrupt, |arrival| {
        let (bytes, at) = match arrival {
            Arrival::Packet(bytes, at) => (bytes, at),
            Arrival::Tick(tick) => {
                last = tick.at;
                balancer.expire(tick.at);
                let taken = rings.iter_mut().all(|ring| put(ring, Parcel::Stride(Some(tick))));
                return if taken { Ok(()) } else { Err(Stopped::Written) };
            }
        };
        number += 1;
        last = at;
        if let Ok(balanced) = balancer.take(bytes, 0, at) {
            let parcel = Parcel::Packet { number, at, bytes: balanced.whole.unwrap_or(bytes).into() };
            let ring = rings.get_mut(balanced.pipeline as usize);
            if !ring.is_some_and(|ring| put(ring, parcel)) {
                return Err(Stopped::Written);
            }
        }
        balancer.expire(at);
        if number.is_multiple_of(STRIDE) && !rings.iter_mut().all(|ring| put(ring, Parcel::Stride(None))) {
            return Err(Stopped::Written);
        }
        Ok(())
    });
    for ring in &mut rings {
        put(ring, Parcel::End(last));
    }
    ended
}

/// One core: takes the packets of its flows until the input ends.
fn application(
    mut tracker: Tracker,
    mut ring: Consumer<Parcel>,
    results: &SyncSender<Handover>,
    (has_streams, ranking): (bool, Option<Ranking>),
) -> Tracker {
    let mut talkers = ranking.map(Talkers::new);
    let mut events = Events { packet: 0, has_streams, list: Vec::new() };
    let mut patience = Patience::default();
    loop {
        let Ok(parcel) = ring.pop() else {
            if ring.is_abandoned() && ring.is_empty() {
                return tracker;
            }
            patience.wait();
            continue;
        };
        patience = Patience::default();
        match parcel {
            Parcel::Packet { number, at, bytes } => {
                events.packet = number;
                let first = events.list.len();
                if let Ok(tracked) = tracker.track(&bytes, 0, at, &mut events) {
                    if tracked.is_new {
                        // Before what else the flow's first packet brought.
                        let began = Event { packet: number, serial: tracked.serial, what: What::Began };
                        events.list.insert(first, began);
                    }
                    if let Some(talkers) = &mut talkers {
                        talkers.add(&tracker, &tracked, ip_len(&bytes));
                    }
                }
                tracker.sweep(at, SWEEP, &mut events);
            }
            Parcel::Stride(tick) => {
                if let Some(tick) = tick {
                    tracker.sweep(tick.at, usize::MAX, &mut events);
                }
                let shows = tick.is_some_and(|tick| tick.shows);
                let report = talkers.as_mut().filter(|_| shows).map(|talkers| talkers.report(&tracker));
                let events = std::mem::take(&mut events.list);
                if results.send(Handover { events, is_tick: tick.is_some(), report }).is_err() {
                    return tracker;
                }
            }
            Parcel::End(last) => {
                events.packet = u64::MAX;
                super::finish(&mut tracker, last, &mut events);
                // Nobody takes them after an error of writing.
                let _ = results.send(Handover { events: events.list, ..Handover::default() });
                return tracker;
            }
        }
    }
}

/// Writes the events of all trackers in the order of packets, until the trackers end or writing fails.
fn merge(trackers: &[Receiver<Handover>], output: &mut Output, mut view: Option<&mut View<'_>>) {
    let mut flows: Vec<HashMap<u64, u64>> = trackers.iter().map(|_| HashMap::new()).collect();
    let mut last = 0;
    loop {
        let strides: Vec<Option<Handover>> = trackers.iter().map(|tracker| tracker.recv().ok()).collect();
        if strides.iter().all(Option::is_none) || output.error.is_some() {
            return;
        }
        let (mut heads, mut reports, mut is_tick) = (Vec::new(), Vec::new(), false);
        for stride in strides.into_iter().map(Option::unwrap_or_default) {
            is_tick |= stride.is_tick;
            reports.extend(stride.report);
            heads.push(stride.events.into_iter().peekable());
        }
        loop {
            let next =
                heads.iter_mut().enumerate().filter_map(|(core, head)| Some((head.peek()?.packet, core)));
            let Some((_, core)) = next.min() else { break };
            if let (Some(event), Some(flows)) = (heads[core].next(), flows.get_mut(core)) {
                write(event, flows, &mut last, output);
            }
        }
        if is_tick {
            output.flush();
        }
        if let Some(view) = view.as_mut().filter(|_| !reports.is_empty()) {
            view.show(reports);
        }
    }
}

/// Writes one event with the number that the flow has among the flows of all trackers.
fn write(event: Event, flows: &mut HashMap<u64, u64>, last: &mut u64, output: &mut Output) {
    let Event { serial, what, .. } = event;
    if matches!(what, What::Began) {
        *last += 1;
        flows.insert(serial, *last);
        return;
    }
    let number = flows.get(&serial).copied().unwrap_or(0);
    match what {
        What::Began => {}
        What::Data { direction, offset, bytes } => {
            output.chunk(number, direction, Chunk::Data { offset, bytes: &bytes });
        }
        What::Gap { direction, gap } => output.chunk(number, direction, Chunk::Gap(gap)),
        What::Anomaly(anomaly) => output.anomaly(number, anomaly),
        What::Active(so_far) => so_far.with_number(number, |so_far| output.active(so_far)),
        What::Ended(ended) => {
            flows.remove(&serial);
            ended.with_number(number, |ended| output.ended(ended));
        }
    }
}
