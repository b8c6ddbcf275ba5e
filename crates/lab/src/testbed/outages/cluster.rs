//! A lab with a failing part: its nodes, and whether the cluster has recovered.

use super::list::Place;
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::lab::Lab;
use crate::testbed::nodes::Process;
use crate::testbed::plan::{Family, NodePort, Plan};
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::model::ClusterView;
use scalebricks_types::NodeId;
use std::time::{Duration, Instant};

/// Time until the cluster must have recovered. A node that failed often within ten minutes takes over its addresses only one
/// minute after its return (ADR 30).
pub const RECOVERY: Duration = Duration::from_secs(75);

/// Time that a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// A lab with a failing part.
pub struct FailingLab<'a, 'b> {
    /// The lab.
    pub lab: &'a mut Lab<'b>,
    /// The nodes of the failure.
    pub place: Place,
    /// Processes that cause the failure, or observe it.
    pub helpers: Vec<Process>,
}

impl FailingLab<'_, '_> {
    /// All nodes.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.lab.plan.size.nodes().collect()
    }

    /// A node's process.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not run.
    pub fn process(&self, node: NodeId) -> Result<&Process, LabError> {
        let process = self.lab.nodes.get(&node);
        process.ok_or_else(|| LabError::Setup(format!("node {} does not run", node.get())))
    }

    /// Kills a node, as a crash would.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not run.
    pub fn kill(&mut self, node: NodeId) -> Result<(), LabError> {
        self.process(node)?;
        self.lab.nodes.remove(&node).into_iter().for_each(Process::kill_at_once);
        Ok(())
    }

    /// Starts a node, without waiting for it.
    ///
    /// # Errors
    /// As [`LabContext::start`](crate::testbed::context::LabContext::start).
    pub fn start(&mut self, node: NodeId) -> Result<(), LabError> {
        let process = self.lab.context().start_node(node)?;
        self.lab.nodes.insert(node, process);
        Ok(())
    }

    /// Kills the node and starts it again, and waits until it has its flows.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn restart(&mut self) -> Result<(), LabError> {
        let node = self.place.node;
        self.kill(node)?;
        self.wait(|| {
            let members = self.cluster(self.other(node)).map(|cluster| cluster.members).unwrap_or_default();
            let number = u16::from(node.get());
            let is_alive = members.iter().any(|member| member.node == number && member.is_alive);
            Ok(is_alive.then(|| format!("node {number} is still a live member")))
        })?;
        self.start(node)?;
        self.await_recovery()?;
        self.lab.context().import_at_last()
    }

    fn client(&self, node: NodeId) -> Result<Client, ClientError> {
        Client::new(Target::Unix(self.lab.context().socket(node)), PATIENCE)
    }

    /// Sends a request to a node other than this one.
    ///
    /// # Errors
    /// [`LabError::Setup`] with the node's error.
    pub fn ask_another<T>(
        &self,
        apart_from: NodeId,
        call: impl FnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<T, LabError> {
        let other = self.other(apart_from);
        let done = self.client(other).and_then(call);
        done.map_err(|error| LabError::Setup(format!("node {} answers: {error}", other.get())))
    }

    /// A node other than this one.
    pub fn other(&self, apart_from: NodeId) -> NodeId {
        self.lab.plan.size.nodes().find(|node| *node != apart_from).unwrap_or(apart_from)
    }

    /// The cluster as a node sees it; `None` if the node does not answer.
    fn cluster(&self, node: NodeId) -> Option<ClusterView> {
        self.client(node).and_then(|client| client.cluster()).ok()
    }

    /// The highest number of view changes that a node reports.
    pub fn epoch(&self) -> u64 {
        let views = self.lab.nodes.keys().filter_map(|node| self.cluster(*node));
        views.map(|cluster| cluster.epoch).max().unwrap_or(0)
    }

    /// Waits until all nodes are live members in the view of each, have caught up and own partitions, and neighbours send each
    /// node's packets to it; how long that took.
    ///
    /// # Errors
    /// [`LabError::Setup`] says what is missing if that takes too long.
    pub fn await_recovery(&self) -> Result<Duration, LabError> {
        let began = Instant::now();
        self.wait(|| self.missing())?;
        Ok(began.elapsed())
    }

    /// The first thing that has not recovered.
    fn missing(&self) -> Result<Option<String>, LabError> {
        for node in self.nodes() {
            let number = node.get();
            let Some(cluster) = self.cluster(node) else {
                return Ok(Some(format!("node {number} does not answer")));
            };
            if !cluster.has_caught_up {
                return Ok(Some(format!("node {number} has not caught up")));
            }
            for other in self.nodes().into_iter().map(|node| u16::from(node.get())) {
                let member = cluster.members.iter().find(|member| member.node == other);
                if !member.is_some_and(|member| member.is_alive && !member.partitions.is_empty()) {
                    return Ok(Some(format!("by node {number}, node {other} is dead or owns nothing")));
                }
            }
        }
        for node in self.nodes() {
            if !self.receives(node)? {
                return Ok(Some(format!("neighbours do not send to node {}", node.get())));
            }
        }
        Ok(None)
    }

    /// Whether the base station and the Internet host have the node's MAC addresses for its IP addresses.
    fn receives(&self, node: NodeId) -> Result<bool, LabError> {
        let internet = Family::ALL.map(|family| (NodePort::Internet, Plan::internet_address(node, family)));
        for (port, address) in internet.into_iter().chain([(NodePort::Ran, Plan::ran_address(node).into())]) {
            let mac = self.lab.context().neighbour(port, address)?;
            if mac != Some(Plan::mac(node, port).to_string()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wait(&self, missing: impl Fn() -> Result<Option<String>, LabError>) -> Result<(), LabError> {
        let mut last = String::new();
        let done = poll(RECOVERY, PAUSE, self.lab.interrupt, || {
            let missing = missing()?;
            let is_done = missing.is_none();
            last = missing.unwrap_or_default();
            Ok(is_done.then_some(()))
        });
        done?.ok_or_else(|| LabError::Setup(format!("{} s later, {last}", RECOVERY.as_secs())))
    }
}
