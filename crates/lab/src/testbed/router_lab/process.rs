//! Routers of this project as processes, and their counters.

use super::machines::Machines;
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::nodes::{Process, own_program};
use rustix::process::Signal;
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::model::GraphView;
use scalebricks_console::Interrupt;
use std::path::PathBuf;
use std::time::Duration;

/// Time until a router must answer its admin socket; DPDK's start takes seconds.
const START: Duration = Duration::from_secs(60);

/// Time until a router must have ended.
const END: Duration = Duration::from_secs(10);

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Octets of a packet buffer. One buffer must fit into a page for XDP sockets.
const PACKET_BYTES: u16 = 2_048;

/// A device of DPDK over an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A packet socket of an interface.
    PacketSocket,
    /// An XDP socket of an interface.
    XdpSocket,
    /// A TAP, which is a port of a bridge with the interface.
    Tap,
}

impl Device {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PacketSocket => "packet sockets",
            Self::XdpSocket => "XDP sockets",
            Self::Tap => "TAPs",
        }
    }

    /// The argument of `--port` for the interface, with the number of the device.
    pub fn port(self, number: usize, interface: &str) -> String {
        match self {
            // A ring of 8 MiB holds frames while the router sleeps or another process has its core.
            Self::PacketSocket => format!(
                "{interface}=net_af_packet{number},iface={interface},blocksz=4096,framesz=2048,framecnt=4096"
            ),
            Self::XdpSocket => format!("{interface}=net_af_xdp{number},iface={interface}"),
            Self::Tap => format!("{interface}=net_tap{number},iface={}", tap(interface)),
        }
    }
}

/// The TAP of an interface.
pub fn tap(interface: &str) -> String {
    format!("t-{interface}")
}

/// A running router.
#[derive(Debug)]
pub struct Router {
    process: Process,
    socket: PathBuf,
}

impl Router {
    /// Starts a router at a machine: `line` is the command of this program without its ports. Waits until it answers.
    ///
    /// # Errors
    /// [`LabError::Died`] if it ends, [`LabError::TooSlow`], [`LabError::Interrupted`].
    pub fn start(
        machines: Machines<'_>,
        machine: &str,
        line: &str,
        device: Device,
        interfaces: &[&str],
    ) -> Result<Self, LabError> {
        let site = machines.0;
        let socket = site.path(format!("{machine}.sock"));
        let mut command = own_program()?.words(line);
        for (number, interface) in interfaces.iter().enumerate() {
            command = command.arg("--port").arg(device.port(number, interface));
        }
        let options = format!("--packet-bytes {PACKET_BYTES} --json --quiet --admin {}", socket.display());
        let command = command.words(&options).inside(&machines.namespace(machine));
        let mut router = Self { process: site.start(machine, &command)?, socket };
        let answered = poll(START, Duration::from_millis(50), site.interrupt, || {
            router.process.check_running()?;
            Ok(router.graph().ok().map(drop))
        });
        match answered
            .and_then(|done| done.ok_or(LabError::TooSlow { command: command.line(), limit: START }))
        {
            Ok(()) => Ok(router),
            Err(error) => {
                router.process.kill();
                Err(error)
            }
        }
    }

    /// Its elements and their counters.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not answer.
    pub fn graph(&self) -> Result<GraphView, LabError> {
        let graph =
            Client::new(Target::Unix(self.socket.clone()), PATIENCE).and_then(|router| router.graph(None));
        graph.map_err(|error| LabError::Setup(format!("counters of {}: {error}", self.socket.display())))
    }

    /// A counter or a reason for drops of an element; 0 if it has none of this name.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    pub fn count(&self, element: &str, name: &str) -> Result<u64, LabError> {
        let graph = self.graph()?;
        let one = graph.elements.iter().find(|one| one.name == element);
        Ok(one.and_then(|one| one.counters.get(name).or(one.dropped.get(name))).copied().unwrap_or(0))
    }

    /// All packets that elements dropped, with element and reason, except those that `is_expected`.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    pub fn drops(&self, is_expected: impl Fn(&str, &str) -> bool) -> Result<Vec<String>, LabError> {
        let graph = self.graph()?;
        let drops = graph.elements.iter().flat_map(|one| {
            one.dropped.iter().map(|(reason, count)| (one.name.as_str(), reason.as_str(), *count))
        });
        let drops = drops.filter(|(element, reason, count)| *count > 0 && !is_expected(element, reason));
        Ok(drops.map(|(element, reason, count)| format!("{element}.{reason}: {count}")).collect())
    }

    /// Ends it as Ctrl-C does; its report as JSON, of the end of its output.
    ///
    /// # Errors
    /// [`LabError::Died`] if it does not end as after an interrupt, [`LabError::TooSlow`].
    pub fn end(mut self) -> Result<serde_json::Value, LabError> {
        self.process.signal(Signal::INT)?;
        let ended = poll(END, Duration::from_millis(10), &Interrupt::default(), || self.process.status())?;
        let log = self.process.log();
        let report = log.find('{').and_then(|start| {
            serde_json::Deserializer::from_str(&log[start..]).into_iter().next().and_then(Result::ok)
        });
        match (ended.and_then(|status| status.code()), report) {
            (Some(code), Some(report)) if code == i32::from(scalebricks_console::status::INTERRUPTED) => {
                Ok(report)
            }
            (code, _) => {
                Err(LabError::Setup(format!("a router ended with {code:?} after an interrupt:\n{log}")))
            }
        }
    }
}
