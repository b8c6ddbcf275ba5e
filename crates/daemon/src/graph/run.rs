//! `scalebricks graph run`: runs a configuration over devices, or over captures in their place.

use super::args::RunArgs;
use super::report::Report;
use super::serve::ServedRun;
use super::{read, registry};
use crate::error::ProcessError;
use crate::runtime::is_dpdk;
use scalebricks_admin::graph::{Configuration, Replace, ServedGraph};
use scalebricks_admin::server::{AdminServer, Limits, Listen};
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::limits;
use scalebricks_apps::click::live::LiveRouter;
use scalebricks_apps::click::run::{End, run as drive};
use scalebricks_console::{Console, Interrupt, output, quantity, status};
use scalebricks_graph::{Clock, Ledger, Registry};
use scalebricks_io::packet_socket::open_port;
use scalebricks_io::{Heard, Packet, PacketBuf, PacketSocketConfig, PacketSource, Pool};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Runs a configuration until its captures end, its time is over, or the user stops it.
///
/// # Errors
/// [`ProcessError`]. Incomplete captures are removed.
pub fn run(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let of_dpdk = args.options.port.iter().filter(|(_, device)| is_dpdk(device)).count();
    if of_dpdk > 0 && of_dpdk < args.options.port.len() {
        return Err(ProcessError::Usage(
            "--port: devices of DPDK and interfaces cannot be mixed; net_af_packet0,iface=eth0 is the interface eth0 as a device of DPDK".to_owned(),
        ));
    }
    if of_dpdk > 0 {
        return over_devices(args, console, interrupt);
    }
    if !args.options.port.is_empty() {
        return over_interfaces(args, console, interrupt);
    }
    let pool = Pool::new(args.options.buffers() as usize, args.options.packet_bytes as usize)?;
    let registry = registry::<Packet>();
    run_with(args, console, interrupt, registry, Box::new(pool), |_| Ok(()))
}

/// Runs a configuration over interfaces of Linux.
fn over_interfaces(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let pool = Pool::new(args.options.buffers() as usize, args.options.packet_bytes as usize)?;
    let config = PacketSocketConfig { heard: Heard::Incoming, ..PacketSocketConfig::default() };
    let open = |(name, device): &(String, String)| match open_port(device, &config, pool.clone()) {
        Ok((receives, sends, drops)) => Ok((name.clone(), receives, sends, drops)),
        Err(error) => Err(ProcessError::from(error)),
    };
    let ports: Vec<_> = args.options.port.iter().map(open).collect::<Result<_, _>>()?;
    let mut lost = Vec::new();
    let done = run_with(args, console, interrupt, registry::<Packet>(), Box::new(pool), |devices| {
        for (name, receives, sends, drops) in ports {
            let (receives, sends) =
                (ReceiveBinding::Port(Box::new(receives)), SendBinding::Port(Box::new(sends)));
            devices.receive(Some(&name), receives).send(&name, sends);
            lost.push((name, drops));
        }
        Ok(())
    });
    for (name, drops) in lost {
        for (reason, count) in drops.counters().into_iter().filter(|(_, count)| *count > 0) {
            console.note(&format!("port {name} dropped {} frames: {reason}", quantity::count(count)));
        }
    }
    done
}

#[cfg(not(feature = "dpdk"))]
fn over_devices(args: &RunArgs, _: &Console, _: &Interrupt) -> Result<u8, ProcessError> {
    let registry = registry::<Packet>();
    let router = read(&args.file, &registry)?;
    router.graph(&registry, &mut Ledger::new())?;
    Err(ProcessError::NoDpdk)
}

#[cfg(feature = "dpdk")]
fn over_devices(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let registry = registry::<scalebricks_dpdk::Mbuf>();
    // A wrong configuration is refused before DPDK starts, which takes seconds and memory.
    let router = read(&args.file, &registry)?;
    router.graph(&registry, &mut Ledger::new())?;
    let ports = super::ports::open(args)?;
    let (pool, ports) = (ports.pool, ports.by_name);
    run_with(args, console, interrupt, registry, Box::new(pool), |devices| {
        for (name, receives, sends) in ports {
            devices.receive(Some(&name), receives).send(&name, sends);
        }
        Ok(())
    })
}

/// The clock: the wall clock for devices; that of the captures if there are only captures.
fn clock(args: &RunArgs, reads_captures: bool) -> Clock {
    if args.options.wall_clock || !args.options.port.is_empty() || !reads_captures {
        Clock::Wall
    } else {
        Clock::Captures
    }
}

fn bind<P: PacketBuf + 'static>(args: &RunArgs, devices: &mut Devices<P>) -> Result<(), ProcessError> {
    let mut seen = Vec::new();
    for capture in &args.options.pcap {
        let key = (capture.is_output, &capture.device);
        if seen.contains(&key) {
            let device = capture.device.as_deref().unwrap_or("the same device");
            return Err(ProcessError::Usage(format!("--pcap binds {device} twice")));
        }
        seen.push(key);
        match (capture.is_output, &capture.device, &capture.file) {
            (false, device, file) => {
                let from = file.clone().map_or(ReceiveBinding::Nothing, ReceiveBinding::Capture);
                devices.receive(device.as_deref(), from);
            }
            (true, Some(device), file) => {
                devices.send(device, file.clone().map_or(SendBinding::Nothing, SendBinding::Capture));
            }
            (true, None, Some(file)) => {
                devices.send_any(file.clone());
            }
            (true, None, None) => {
                return Err(ProcessError::Usage("--pcap out=- needs the name of a device".to_owned()));
            }
        }
    }
    Ok(())
}

fn run_with<P: PacketBuf + 'static>(
    args: &RunArgs,
    console: &Console,
    interrupt: &Interrupt,
    registry: Registry<P>,
    buffers: Box<dyn PacketSource<P> + Send>,
    ports: impl FnOnce(&mut Devices<P>) -> Result<(), ProcessError>,
) -> Result<u8, ProcessError> {
    let router = read(&args.file, &registry)?;
    router.notes().iter().for_each(|note| console.note(note));
    let reads_captures = args.options.pcap.iter().any(|capture| !capture.is_output && capture.file.is_some())
        || router.configuration().elements.iter().any(|element| element.class == "FromDump");
    let clock = clock(args, reads_captures);
    let mut devices = Devices::new(clock);
    bind(args, &mut devices)?;
    ports(&mut devices)?;
    let variables = args.file.variables.clone();
    let (live, mut worker) = LiveRouter::start(&router, variables, registry, devices, buffers)?;
    if let [unused, ..] = &live.unused()[..] {
        return Err(ProcessError::Usage(unused.clone()));
    }
    for place in live.control_sockets() {
        console.note(&format!("control socket at {place}"));
    }
    // Before the admin server starts: a client that sees the run may send SIGHUP, which would end a process without a
    // handler.
    let mut signals = Signals::new([SIGHUP]).map_err(ProcessError::Signals)?;
    let asked = signals.handle();
    let served = Arc::new(ServedRun::new(live, &args.file));
    let start = Instant::now();
    let admin = args.options.admin.as_ref().map(|socket| serve(socket, args, &served, start)).transpose()?;
    let end = std::thread::scope(|scope| {
        scope.spawn(|| signals.forever().for_each(|_| reload(&*served, console)));
        let end = drive(&mut worker, clock, args.options.duration, interrupt.flag());
        served.live.end();
        asked.close();
        end
    });
    drop(admin);
    let run = (clock, end, start.elapsed());
    let mut report = Report::new(args, run, &served.live, worker.graph_mut());
    report.written = served.live.finish()?;
    console.result(&if args.options.json {
        output::json(&report)?.trim_end().to_owned()
    } else {
        report.render()
    })?;
    report.faults.iter().for_each(|fault| console.error(fault));
    Ok(match end {
        End::Stopped => status::INTERRUPTED,
        End::Stuck => {
            console.error("the run is stuck: no packet moved for ten seconds of the captures, although they have more packets");
            status::FAILURE
        }
        End::Done | End::Elapsed if report.faults.is_empty() => status::SUCCESS,
        End::Done | End::Elapsed => status::FAILURE,
    })
}

/// Starts the admin server at the socket, and over TLS if configured.
fn serve<P: PacketBuf + 'static>(
    socket: &Path,
    args: &RunArgs,
    served: &Arc<ServedRun<P>>,
    since: Instant,
) -> Result<AdminServer, ProcessError> {
    let limits = Limits { body_bytes: limits().text_bytes, ..Limits::default() };
    let tcp = args.options.admin_tcp.as_ref().map(|tcp| tcp.at(Path::to_owned));
    let listen = Listen { socket: socket.to_owned(), tcp, limits };
    let graph = ServedGraph::new(Arc::clone(served.live.directory()), &args.file.file, since);
    let replace: Arc<dyn Replace> = Arc::<ServedRun<P>>::clone(served);
    Ok(AdminServer::start_graph(&listen, Arc::new(graph.replaced_by(replace)))?)
}

/// Reads the configuration again, and reports the result.
fn reload(graph: &impl Replace, console: &Console) {
    match graph.replace(Configuration::File) {
        Ok(replaced) => console.note(&format!(
            "the configuration was reloaded: {} elements, {} connections",
            replaced.elements, replaced.connections
        )),
        Err(error) => console.error(&format!("the old configuration keeps running: {error}")),
    }
}
