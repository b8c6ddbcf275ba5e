//! `scalebricks switch replay`: sends captures through the switch, in this process.
//!
//! ```text
//! a capture per port ─▶ merge, by time ─▶ bursts ─▶ a turn of the graph ─▶ a capture per port
//! ```
//!
//! The clock is that of the captures, so the storm guard decides as it would have then.

mod input;
mod output;
mod report;

use super::args::ReplayArgs;
use super::load::Configuration;
use super::running::Running;
use crate::error::ProcessError;
use input::{Arrival, Inputs};
use output::Captures;
use report::Report;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_graph::Worker;
use scalebricks_io::pool::MAX_PACKET_BYTES;
use scalebricks_io::{BURST, MemoryPort, Packet, PacketBuf, Pool, Tag, memory_port_pair};
use std::time::{Duration, Instant};

/// Longest duration of a burst of one port.
const BURST_TIME: Duration = Duration::from_micros(100);

/// The switch, and the far ends of its ports.
struct Rig {
    worker: Worker<Packet>,
    /// By port: the far ends of receiving and sending.
    far: Vec<[MemoryPort<Packet>; 2]>,
    pool: Pool,
}

/// Runs a replay.
///
/// # Errors
/// [`ProcessError`]. Incomplete captures are removed.
pub fn run(args: &ReplayArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let configuration = Configuration::read(&args.config)?;
    if configuration.file.control.is_some() {
        return Err(ProcessError::NamesInLog);
    }
    let table = configuration.table()?;
    let switch = Running::new(configuration, table, Instant::now());
    switch.reload()?;
    let configuration = &switch.configuration;
    let inputs = Inputs::open(&args.inputs, &configuration.file.port_names)?;
    let mut captures = Captures::create(&args.out, &configuration.file.port_names)?;
    let mut rig = Rig::new(&switch)?;
    let skipped = drive(inputs, &mut rig, &mut captures, interrupt)?;
    let files = captures.finish()?;
    let report = Report::new(configuration, &switch.names.lock().stats(), switch.ports(), &files, skipped);
    args.result.write(&report, None, console)?;
    args.result.print(&report, Report::render, console)?;
    Ok(status::SUCCESS)
}

impl Rig {
    fn new(switch: &Running) -> Result<Self, ProcessError> {
        let ports = switch.configuration.file.ports.len();
        // A turn floods at most a whole burst.
        let pool = Pool::new((ports + 1) * BURST, MAX_PACKET_BYTES)?;
        let link = |_| {
            let ((rx, into), (tx, out)) = (memory_port_pair(2 * BURST), memory_port_pair(2 * BURST));
            ((Box::new(rx) as _, Box::new(tx) as _), [into, out])
        };
        let (queues, far): (Vec<_>, Vec<_>) = (0..ports).map(link).unzip();
        Ok(Self { worker: switch.worker(queues, Box::new(pool.clone()))?, far, pool })
    }
}

/// Sends all frames through the switch; returns how many were too long.
fn drive(
    mut inputs: Inputs,
    rig: &mut Rig,
    captures: &mut Captures,
    interrupt: &Interrupt,
) -> Result<u64, ProcessError> {
    let mut burst: Vec<Arrival> = Vec::with_capacity(BURST);
    let (mut start, mut skipped) = (None, 0);
    while let Some(came) = inputs.next()? {
        if came.frame.data.len() > MAX_PACKET_BYTES {
            skipped += 1;
            continue;
        }
        start.get_or_insert(came.frame.timestamp);
        let is_other = burst.first().is_some_and(|first| {
            first.port != came.port
                || came.frame.timestamp > first.frame.timestamp + BURST_TIME
                || burst.len() == BURST
        });
        if is_other {
            interrupt.check()?;
            turn(&mut burst, start.unwrap_or_default(), rig, captures)?;
        }
        burst.push(came);
    }
    turn(&mut burst, start.unwrap_or_default(), rig, captures)?;
    Ok(skipped)
}

/// Sends one burst through the switch.
fn turn(
    burst: &mut Vec<Arrival>,
    start: Duration,
    rig: &mut Rig,
    captures: &mut Captures,
) -> Result<(), ProcessError> {
    let Some(first) = burst.first() else { return Ok(()) };
    let now = first.frame.timestamp.saturating_sub(start);
    for (id, came) in (0..).zip(burst.iter()) {
        let Some(mut packet) = rig.pool.packet(&came.frame.data) else {
            unreachable!("all packets of the pool are free")
        };
        packet.set_tag(Tag { id, ..Tag::default() });
        if rig.far[came.port][0].send(packet).is_err() {
            unreachable!("a port holds two bursts, and the last turn emptied it");
        }
    }
    rig.worker.turn(now);
    for (port, [_, far]) in rig.far.iter_mut().enumerate() {
        while let Some(packet) = far.receive() {
            // The tag of a packet, and of its copies, is the index of its frame.
            if let Some(came) = burst.get(packet.tag().id as usize) {
                captures.write(port, &came.frame, packet.data())?;
            }
        }
    }
    burst.clear();
    Ok(())
}
