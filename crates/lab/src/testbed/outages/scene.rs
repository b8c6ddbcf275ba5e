//! A lab while something breaks in it: its nodes one by one, and whether all is in order again.

use super::list::Place;
use crate::testbed::LabError;
use crate::testbed::nodes::Process;
use crate::testbed::plan::{Family, Link, Plan};
use crate::testbed::session::Lab;
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::model::ClusterView;
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take until all is in order again.
/// A node that was befallen often within ten minutes takes its addresses only a minute after it is back (ADR 30).
pub const ORDER: Duration = Duration::from_secs(75);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A lab in which something breaks.
pub struct Scene<'a, 'b> {
    pub lab: &'a mut Lab<'b>,
    /// Whom it befalls.
    pub place: Place,
    /// Processes that belong to what is broken.
    pub held: Vec<Process>,
    pub interrupt: &'a Interrupt,
}

impl Scene<'_, '_> {
    /// A node's process.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not run.
    pub fn process(&self, node: NodeId) -> Result<&Process, LabError> {
        let there = self.lab.nodes.get(&node);
        there.ok_or_else(|| LabError::Setup { what: format!("node {} does not run", node.get()) })
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

    /// Starts a node, and does not wait for it.
    ///
    /// # Errors
    /// As [`Processes::start`](crate::testbed::nodes::Processes::start).
    pub fn start(&mut self, node: NodeId) -> Result<(), LabError> {
        let process = self.lab.processes().start_node(node)?;
        self.lab.nodes.insert(node, process);
        Ok(())
    }

    fn client(&self, node: NodeId) -> Result<Client, ClientError> {
        Client::new(Target::Unix(self.lab.processes().socket(node)), PATIENCE)
    }

    /// Has another node than this do something.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not.
    pub fn tell_another<T>(
        &self,
        apart_from: NodeId,
        call: impl FnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<T, LabError> {
        let other = self.other(apart_from);
        let done = self.client(other).and_then(call);
        done.map_err(|error| LabError::Setup { what: format!("node {} answers: {error}", other.get()) })
    }

    /// Another node than this.
    pub fn other(&self, apart_from: NodeId) -> NodeId {
        self.lab.plan.size.nodes().find(|node| *node != apart_from).unwrap_or(apart_from)
    }

    /// What a node says of the cluster; `None` if it does not answer.
    fn cluster(&self, node: NodeId) -> Option<ClusterView> {
        self.client(node).and_then(|client| client.cluster()).ok()
    }

    /// How often the view has changed, by the node that knows most. Nodes that are stopped are not asked.
    pub fn epoch(&self, apart_from: Option<NodeId>) -> u64 {
        let asked = self.lab.nodes.keys().filter(|node| Some(**node) != apart_from);
        asked.filter_map(|node| self.cluster(*node)).map(|cluster| cluster.epoch).max().unwrap_or(0)
    }

    /// Waits until another holds a node for dead.
    ///
    /// # Errors
    /// [`LabError::Setup`] if that takes too long.
    pub fn await_absence(&self, node: NodeId) -> Result<(), LabError> {
        self.wait(|| {
            let members = self.cluster(self.other(node)).map(|cluster| cluster.members).unwrap_or_default();
            let is_alive = |member: &_| is_member(member, node);
            Ok(members.iter().any(is_alive).then(|| format!("node {} is held for alive", node.get())))
        })
    }

    /// Waits until all nodes are alive in the view of each, have caught up and own partitions, and neighbours send to each what is
    /// its own; how long that took.
    ///
    /// # Errors
    /// [`LabError::Setup`] says what is missing if that takes too long.
    pub fn await_order(&self) -> Result<Duration, LabError> {
        let began = Instant::now();
        self.wait(|| self.disorder())?;
        Ok(began.elapsed())
    }

    /// The first thing that is not in order.
    fn disorder(&self) -> Result<Option<String>, LabError> {
        let nodes: Vec<NodeId> = self.lab.plan.size.nodes().collect();
        for node in &nodes {
            let Some(cluster) = self.cluster(*node) else {
                return Ok(Some(format!("node {} does not answer", node.get())));
            };
            if !cluster.has_caught_up {
                return Ok(Some(format!("node {} has not caught up", node.get())));
            }
            for other in &nodes {
                let number = u16::from(other.get());
                let member = cluster.members.iter().find(|member| member.node == number);
                if !member.is_some_and(|member| member.is_alive && !member.partitions.is_empty()) {
                    let (node, other) = (node.get(), other.get());
                    return Ok(Some(format!("by node {node}, node {other} is dead or owns nothing")));
                }
            }
        }
        for node in nodes {
            if !self.is_sent_to(node)? {
                return Ok(Some(format!("neighbours do not send to node {}", node.get())));
            }
        }
        Ok(None)
    }

    /// Whether the base station and the Internet host have the node's MAC addresses for its addresses.
    fn is_sent_to(&self, node: NodeId) -> Result<bool, LabError> {
        let network = self.lab.network();
        for family in Family::ALL {
            let mac = network.neighbour(Link::Internet, Plan::internet_address(node, family))?;
            if mac != Some(Plan::mac(node, Link::Internet).to_string()) {
                return Ok(false);
            }
        }
        let mac = network.neighbour(Link::Ran, Plan::ran_address(node).into())?;
        Ok(mac == Some(Plan::mac(node, Link::Ran).to_string()))
    }

    fn wait(&self, missing: impl Fn() -> Result<Option<String>, LabError>) -> Result<(), LabError> {
        let began = Instant::now();
        while let Some(what) = missing()? {
            self.interrupt.check()?;
            if began.elapsed() > ORDER {
                return Err(LabError::Setup { what: format!("{} s later, {what}", ORDER.as_secs()) });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

fn is_member(member: &scalebricks_admin::model::MemberView, node: NodeId) -> bool {
    member.node == u16::from(node.get()) && member.is_alive
}
