//! The failures of parts of a lab: how they are caused and repaired.

use super::cluster::FailingLab;
use crate::testbed::LabError;
use crate::testbed::context::LabContext;
use crate::testbed::network::ControlEnd;
use crate::testbed::plan::{ControlNet, NodePort};
use rustix::process::Signal;
use scalebricks_types::NodeId;
use std::thread;
use std::time::Duration;

/// The worker's thread of a node with one worker.
pub const WORKER: &str = "worker-0";

/// The threads of a node's control plane.
pub const CONTROL: &str = "control";

/// How long a server of the log is down.
const SERVER_DOWN: Duration = Duration::from_secs(4);

/// How long a server of the log is up again before the next is killed.
const SERVER_UP: Duration = Duration::from_secs(3);

/// Time that an import which was started before a failure may take after its repair.
const IMPORT: Duration = Duration::from_secs(15);

/// A part that fails. `node` and `peer` are those of the outage's [`Place`](super::list::Place).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The control network drops frames between node and peer.
    ControlPair,
    /// The control network drops frames from node to peer.
    ControlOneWay,
    /// The control network drops frames between two halves of the nodes.
    ControlSplit,
    /// The control network's bridge is down.
    ControlDown,
    /// The node's cable of the control network is down.
    ControlLink,
    /// A cable of the node is down.
    Link(NodePort),
    /// All cables of the node are down.
    AllLinks,
    /// The fabric drops frames between node and peer.
    FabricPair,
    /// The node has no next hop to the Internet.
    NextHop,
    /// The base stations' bridge is down.
    RanSwitch,
    /// The node's threads of this name are suspended.
    Threads(&'static str),
    /// The node's process is stopped.
    Stopped,
    /// The node's process is killed.
    Killed,
    /// All nodes' processes are killed.
    AllKilled,
    /// The node is drained.
    Drained,
    /// The servers of the log are stopped during an import.
    LogStopped,
    /// The servers of the log are killed.
    LogKilled,
    /// The node's messages to the log are lost.
    LogCut,
    /// The node is restarted while its messages to the log are lost.
    RestartWithoutLog,
    /// The servers of the log are killed and started again, one after the other.
    LogServers,
}

impl Failure {
    /// Causes the failure.
    ///
    /// # Errors
    /// [`LabError`] if the lab itself does not work.
    pub fn cause(self, failing: &mut FailingLab<'_, '_>) -> Result<(), LabError> {
        let node = failing.place.node;
        match self {
            Self::Threads(thread) => {
                let process = failing.process(node)?.id();
                let line = format!("lab suspend --process {process} --thread {thread}");
                let context = failing.lab.context();
                let helper = context.helper("suspend", &line, &context.plan.switch())?;
                failing.helpers.push(helper);
                Ok(())
            }
            Self::Stopped => failing.process(node)?.signal(Signal::STOP),
            Self::Killed => failing.kill(node),
            Self::AllKilled => failing.nodes().into_iter().try_for_each(|node| failing.kill(node)),
            Self::Drained => {
                failing.ask_another(node, |other| other.drain(node.get().into(), true).map(drop))
            }
            Self::LogStopped => {
                failing.lab.log().signal(Signal::STOP)?;
                let import = failing.lab.context().start_import()?;
                failing.helpers.push(import);
                Ok(())
            }
            Self::LogKilled => {
                failing.lab.log().kill();
                Ok(())
            }
            Self::RestartWithoutLog => {
                failing.lab.context().set_log_way(node, false)?;
                failing.kill(node)?;
                failing.start(node)
            }
            Self::LogServers => failing.lab.plan.servers().try_for_each(|server| {
                failing.lab.log().kill_server(server);
                thread::sleep(SERVER_DOWN);
                failing.lab.start_log_server(server)?;
                thread::sleep(SERVER_UP);
                Ok(())
            }),
            network => network.set_network(failing, false),
        }
    }

    /// Repairs it.
    ///
    /// # Errors
    /// [`LabError`] if the lab itself does not work.
    pub fn repair(self, failing: &mut FailingLab<'_, '_>) -> Result<(), LabError> {
        let (node, interrupt) = (failing.place.node, failing.lab.interrupt);
        match self {
            Self::Threads(_) => failing.helpers.drain(..).try_for_each(|mut helper| {
                // A helper that had ended did not suspend anything.
                let running = helper.check_running();
                helper.kill();
                running
            }),
            Self::Stopped => failing.process(node)?.signal(Signal::CONT),
            Self::Killed => failing.start(node),
            Self::AllKilled => failing.nodes().into_iter().try_for_each(|node| failing.start(node)),
            Self::Drained => failing.ask_another(node, |other| other.undrain(node.get().into()).map(drop)),
            Self::LogStopped => {
                failing.lab.log().signal(Signal::CONT)?;
                // After the import, all nodes have the flows.
                failing.helpers.drain(..).try_for_each(|import| import.await_end(IMPORT, interrupt).map(drop))
            }
            Self::LogKilled => failing.lab.start_log(),
            Self::RestartWithoutLog => failing.lab.context().set_log_way(node, true),
            Self::LogServers => Ok(()),
            network => network.set_network(failing, true),
        }
    }

    /// Breaks or repairs a part of the network.
    fn set_network(self, failing: &FailingLab<'_, '_>, is_up: bool) -> Result<(), LabError> {
        let (network, node, peer) = (failing.lab.context(), failing.place.node, failing.place.peer);
        match self {
            Self::ControlPair => set_control_pair(network, node, peer, is_up),
            Self::ControlOneWay => {
                network.set_control_way(ControlEnd::Node(node), ControlEnd::Node(peer), is_up)
            }
            Self::ControlSplit => {
                let nodes = failing.nodes();
                let (left, right) = nodes.split_at(nodes.len() / 2);
                let mut pairs = left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b)));
                pairs.try_for_each(|(a, b)| set_control_pair(network, a, b, is_up))
            }
            Self::ControlDown => network.set_up(ControlNet::Mesh.bridge(), is_up),
            Self::ControlLink => network.set_control_port(node, is_up),
            Self::Link(port) => network.set_port(port, node, is_up),
            Self::AllLinks => {
                network.set_control_port(node, is_up)?;
                NodePort::ALL.iter().try_for_each(|port| network.set_port(*port, node, is_up))
            }
            Self::FabricPair => network.set_fabric_pair(node, peer, is_up),
            Self::LogCut => network.set_log_way(node, is_up),
            Self::NextHop => network.set_member(NodePort::Internet, node, is_up),
            Self::RanSwitch => network.set_up(NodePort::Ran.bridge(), is_up),
            // The others are not failures of the network.
            _ => Ok(()),
        }
    }
}

fn set_control_pair(network: LabContext<'_>, a: NodeId, b: NodeId, is_up: bool) -> Result<(), LabError> {
    network.set_control_pair(ControlEnd::Node(a), ControlEnd::Node(b), is_up)
}
