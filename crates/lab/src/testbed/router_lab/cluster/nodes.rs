//! The nodes of the cluster, and the log that they follow.

use super::{NODES, node_name};
use crate::testbed::LabError;
use crate::testbed::ends::Verdict;
use crate::testbed::log;
use crate::testbed::nodes::{Process, own_program};
use crate::testbed::plan::WORKER;
use crate::testbed::router_lab::machines::Machines;
use crate::testbed::state;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

/// The address of the NATS server.
pub const LOG: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 100);

/// The speaker of BGP on the network of the control plane.
pub const SPEAKER_CONTROL: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 50);

/// Where node 0 takes routes from FRR.
pub const FPM: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 254, 0, 1), 2620);

/// What a node logs when it forwards.
const READY: &str = "ready";

/// Starts the server of the log.
///
/// # Errors
/// As [`Process::await_word`].
pub fn start_log(machines: Machines<'_>, program: &Path) -> Result<Process, LabError> {
    let site = machines.0;
    state::write(
        &site.path("nats.conf"),
        log::server_text("router", LOG, &site.path("nats"), "").as_bytes(),
    )?;
    log::start_server(site, program, "nats", &machines.namespace("log"))
}

/// The running nodes.
#[derive(Debug)]
pub struct Cluster<'a> {
    machines: Machines<'a>,
    nodes: BTreeMap<u8, Process>,
}

impl<'a> Cluster<'a> {
    /// Starts all nodes, and waits until each is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn start(machines: Machines<'a>) -> Result<Self, LabError> {
        let mut started = Vec::new();
        for node in 0..NODES {
            started.push((node, launch(machines, node)?));
        }
        let ready = started
            .into_iter()
            .map(|(node, process)| Ok((node, process.await_word(READY, machines.0.interrupt)?)));
        Ok(Self { machines, nodes: ready.collect::<Result<_, LabError>>()? })
    }

    /// Kills a node as a crash would.
    pub fn kill(&mut self, node: u8) {
        if let Some(process) = self.nodes.remove(&node) {
            process.kill_at_once();
        }
    }

    /// Starts a node that was killed, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn restart(&mut self, node: u8) -> Result<(), LabError> {
        let process = launch(self.machines, node)?.await_word(READY, self.machines.0.interrupt)?;
        self.nodes.insert(node, process);
        Ok(())
    }

    /// Fails if a node has ended by itself.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check_running(&mut self) -> Result<(), LabError> {
        self.nodes.values_mut().try_for_each(Process::check_running)
    }

    /// Stops all nodes with SIGTERM: how each ended.
    pub fn stop(self) -> impl Iterator<Item = (u8, Result<Verdict, LabError>)> {
        let stop = |(node, process): (u8, Process)| {
            (node, process.stop().map(|_| Verdict::new(true, "ended with status 0")))
        };
        self.nodes.into_iter().map(stop)
    }
}

fn launch(machines: Machines<'_>, node: u8) -> Result<Process, LabError> {
    let (site, name) = (machines.0, node_name(node));
    let file = site.path(format!("{name}.toml"));
    state::write(
        &file,
        configuration(node, &site.path(format!("{name}.sock")).to_string_lossy()).as_bytes(),
    )?;
    let command = own_program()?.words(&format!("router node --config {}", file.display()));
    site.start(&name, &command.inside(&machines.namespace(&name)))
}

fn device(number: u8, interface: &str) -> String {
    // A ring of 8 MiB holds frames while the node sleeps or another process has its core.
    format!("net_af_packet{number},iface={interface},blocksz=4096,framesz=2048,framecnt=4096")
}

/// A node's configuration. `admin` is the path of its socket.
fn configuration(node: u8, admin: &str) -> String {
    let n = node + 1;
    let mut text = format!(
        "# Written by the lab.\n[router]\nnode = {node}\nnodes = {NODES}\nsecret = \"00112233445566778899aabbccddeeff\"\n\
         port_rate = \"10G\"\nsteering = \"flowlets\"\nadmin = \"{admin}\"\n\n\
         [[port]]\ndevice = \"{}\"\naddresses = [\"10.{n}.0.1/24\", \"2001:db8:{n}::1/64\"]\n\n",
        device(0, "ext0")
    );
    for peer in (0..NODES).filter(|peer| *peer != node) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "[[link]]\nnode = {peer}\ndevice = \"{}\"\n",
            device(peer + 1, &format!("node{peer}"))
        );
    }
    if node == 0 {
        let _ = write!(text, "[feeder.fpm]\nlisten = \"{}:{}\"\nquiet_ms = 5000\n\n", FPM.0, FPM.1);
    }
    text + &format!(
        "[control]\nengine = \"nats://{LOG}:4222\"\nreplicas = 1\nname = \"router\"\n\n{WORKER}\n\
         [dpdk]\nmemory = \"ordinary\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_daemon::router::node::config::RouterFile;

    #[test]
    fn nodes_parse_their_configurations() {
        for node in 0..NODES {
            let file = RouterFile::parse(&configuration(node, "/run/x.sock")).unwrap();
            assert_eq!((file.size.get(), file.id.get()), (usize::from(NODES), node));
            assert_eq!((file.ports.len(), file.links.len()), (1, 3));
            assert_eq!(file.admin, Path::new("/run/x.sock"));
        }
    }
}
