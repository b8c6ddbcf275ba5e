//! `scalebricks graph run`: a configuration over devices, or over captures in their place.

use super::args::RunArgs;
use super::report::Report;
use super::{GraphError, read, registry};
use scalebricks_apps::click::control_socket::ControlServer;
use scalebricks_apps::click::outside::{Outside, Receives, Sends};
use scalebricks_apps::click::run::{End, run as drive};
use scalebricks_console::{Console, Interrupt, output, status};
use scalebricks_graph::{Clock, Ledger, Registry, Worker};
use scalebricks_io::{Packet, PacketBuf, PacketSource, Pool};
use std::time::Instant;

/// Runs a configuration until its captures end, its time is over, or the user stops it.
///
/// # Errors
/// [`GraphError`]. Nothing is left of captures that are not complete.
pub fn run(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, GraphError> {
    if !args.port.is_empty() {
        return over_devices(args, console, interrupt);
    }
    let pool = Pool::new(args.buffers as usize, args.packet_bytes as usize)?;
    let registry = registry::<Packet>();
    run_with(args, console, interrupt, &registry, Box::new(pool), |_| Ok(()))
}

#[cfg(not(feature = "dpdk"))]
fn over_devices(args: &RunArgs, _: &Console, _: &Interrupt) -> Result<u8, GraphError> {
    let registry = registry::<Packet>();
    let router = read(&args.file, &registry)?;
    router.graph(&registry, &mut Ledger::new())?;
    Err(GraphError::NoDpdk)
}

#[cfg(feature = "dpdk")]
fn over_devices(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, GraphError> {
    let registry = registry::<scalebricks_dpdk::Mbuf>();
    // A wrong configuration is told of before DPDK takes seconds and memory.
    let router = read(&args.file, &registry)?;
    router.graph(&registry, &mut Ledger::new())?;
    let ports = super::ports::open(args)?;
    let (pool, ports) = (ports.pool, ports.by_name);
    run_with(args, console, interrupt, &registry, Box::new(pool), |outside| {
        for (name, receives, sends) in ports {
            outside.receive(Some(&name), receives).send(&name, sends);
        }
        Ok(())
    })
}

/// By which clock: devices go by that on the wall; captures alone bring their own.
fn clock(args: &RunArgs, reads_captures: bool) -> Clock {
    if args.wall_clock || !args.port.is_empty() || !reads_captures { Clock::Wall } else { Clock::Captures }
}

fn bind<P: PacketBuf + 'static>(args: &RunArgs, outside: &mut Outside<P>) -> Result<(), GraphError> {
    let mut seen = Vec::new();
    for capture in &args.pcap {
        let key = (capture.is_output, &capture.device);
        if seen.contains(&key) {
            let device = capture.device.as_deref().unwrap_or("the same device");
            return Err(GraphError::Usage(format!("--pcap binds {device} twice")));
        }
        seen.push(key);
        match (capture.is_output, &capture.device, &capture.file) {
            (false, device, file) => {
                let from = file.clone().map_or(Receives::Nothing, Receives::Capture);
                outside.receive(device.as_deref(), from);
            }
            (true, Some(device), file) => {
                outside.send(device, file.clone().map_or(Sends::Nothing, Sends::Capture));
            }
            (true, None, Some(file)) => {
                outside.send_any(file.clone());
            }
            (true, None, None) => {
                return Err(GraphError::Usage("--pcap out=- does not say which device".to_owned()));
            }
        }
    }
    Ok(())
}

fn run_with<P: PacketBuf + 'static>(
    args: &RunArgs,
    console: &Console,
    interrupt: &Interrupt,
    registry: &Registry<P>,
    buffers: Box<dyn PacketSource<P> + Send>,
    ports: impl FnOnce(&mut Outside<P>) -> Result<(), GraphError>,
) -> Result<u8, GraphError> {
    let router = read(&args.file, registry)?;
    router.notes().iter().for_each(|note| console.note(note));
    let mut ledger = Ledger::new();
    let mut graph = router.graph(registry, &mut ledger)?;
    let reads_captures = args.pcap.iter().any(|capture| !capture.is_output && capture.file.is_some())
        || router.configuration().elements.iter().any(|element| element.class == "FromDump");
    let clock = clock(args, reads_captures);
    let mut outside = Outside::new(clock);
    bind(args, &mut outside)?;
    ports(&mut outside)?;
    router.open(&mut graph, &mut outside)?;
    if let [unused, ..] = &outside.unused()[..] {
        return Err(GraphError::Usage(unused.clone()));
    }
    let mut worker = Worker::new(graph, buffers, ());
    let sockets = ControlServer::start(&router, worker.graph(), &worker.remote())?;
    for place in sockets.places() {
        console.note(&format!("control socket at {place}"));
    }
    let start = Instant::now();
    let end = drive(&mut worker, clock, args.duration, interrupt.flag());
    drop(sockets);
    let mut report = Report::new(args, (clock, end, start.elapsed()), &router, worker.graph_mut(), &ledger);
    report.written = outside.finish()?;
    console.result(&if args.json {
        output::json(&report)?.trim_end().to_owned()
    } else {
        report.render()
    })?;
    report.faults.iter().for_each(|fault| console.error(fault));
    Ok(match end {
        End::Stopped => status::INTERRUPTED,
        End::Stuck => {
            console.error("nothing has moved for ten seconds of the captures, though they have more packets");
            status::FAILURE
        }
        End::Done | End::Elapsed if report.faults.is_empty() => status::SUCCESS,
        End::Done | End::Elapsed => status::FAILURE,
    })
}
