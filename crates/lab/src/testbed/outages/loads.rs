//! Three loads at once: pings, paced UDP and TCP transfers, each between a phone and the Internet host, while something breaks.

use super::track::Track;
use crate::testbed::LabError;
use crate::testbed::nodes::{Process, Processes};
use crate::testbed::plan::{Family, Plan, Ue};
use crate::testbed::probes::{Answers, Probes};
use crate::testbed::streams::{self, StreamEnd, StreamReport};
use crate::testbed::transfers::{Finished, Transfers};
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use scalebricks_types::{ClusterSize, NodeId};
use std::time::Duration;

/// How long an end of the streams may take to tell what it saw.
const TELL: Duration = Duration::from_secs(10);

/// Which nodes a flow's packets meet, and in which directions they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where they enter.
    pub entry: NodeId,
    /// Where they are handled, and leave.
    pub handling: NodeId,
    /// Whether some go to the Internet.
    pub up: bool,
    /// Whether some go to a phone.
    pub down: bool,
}

impl Route {
    /// Of a phone's packets while each phone's enter at a node of their own.
    const fn of(ue: Ue, size: ClusterSize, up: bool, down: bool) -> Self {
        Self { entry: ue.entry(size), handling: ue.node, up, down }
    }

    /// Whether they meet a node.
    pub fn meets(self, node: NodeId) -> bool {
        self.entry == node || self.handling == node
    }

    /// Whether they cross the fabric between two nodes, in either direction.
    pub fn crosses(self, a: NodeId, b: NodeId) -> bool {
        a != b && self.meets(a) && self.meets(b)
    }
}

/// The loads, under way.
pub struct Loads {
    probes: Probes,
    phones: Process,
    host: Process,
    transfers: Transfers,
}

/// What became of them.
#[derive(Debug)]
pub struct Results {
    /// Pings and streams.
    pub tracks: Vec<Track>,
    /// Datagrams at the wrong phone.
    pub misdelivered: u64,
    /// The transfers.
    pub transfers: Finished,
}

impl Loads {
    /// Starts them. Transfers are as large as takes this long at their pace.
    ///
    /// # Errors
    /// As [`Processes::start`].
    pub fn start(processes: Processes<'_>, transfers_last: Duration) -> Result<Self, LabError> {
        let host = processes.streams(StreamEnd::Host)?;
        let phones = processes.streams(StreamEnd::Phones)?;
        let probes = Probes::start(processes, &phones_of(processes.plan))?;
        let transfers = Transfers::start(processes, &phones_of(processes.plan), transfers_last)?;
        Ok(Self { probes, phones, host, transfers })
    }

    /// Ends pings and streams, waits for the transfers, and says what became of each.
    ///
    /// # Errors
    /// [`LabError`] if one had ended, or does not say what it saw.
    pub fn finish(self, plan: &Plan, interrupt: &Interrupt) -> Result<Results, LabError> {
        self.phones.signal(Signal::INT)?;
        self.host.signal(Signal::INT)?;
        let answers = self.probes.finish(interrupt)?;
        let mut tracks: Vec<Track> = answers.iter().map(|answers| pinged(answers, plan.size)).collect();
        let told = |process: Process| -> Result<String, LabError> {
            let ended = process.await_word_for(streams::END, TELL, interrupt)?;
            let told = ended.log();
            ended.kill();
            Ok(told)
        };
        let (phones, host) = (told(self.phones)?, told(self.host)?);
        let [phones, host] = streams::read(&phones, &host)
            .ok_or_else(|| LabError::Setup { what: "an end of the streams is not understood".to_owned() })?;
        tracks.extend(streamed(plan, &phones, &host, true));
        tracks.extend(streamed(plan, &host, &phones, false));
        let transfers = self.transfers.finish(interrupt)?;
        let misdelivered = phones.misdelivered + host.misdelivered;
        Ok(Results { tracks, misdelivered, transfers })
    }
}

/// The phones that ping and transfer files: for each node one that enters there, and one that is handled there, by another.
fn phones_of(plan: &Plan) -> Vec<Ue> {
    let size = plan.size;
    let next = |node: NodeId| (node.index() + 1) % size.get();
    plan.ues().filter(|ue| ue.node.index() == next(ue.entry(size))).collect()
}

fn pinged(answers: &Answers, size: ClusterSize) -> Track {
    let route = Route::of(answers.ue, size, true, true);
    Track::new(answers.flow.clone(), route, &answers.sent_at(), answers.arrived())
}

fn streamed<'a>(
    plan: &'a Plan,
    sender: &'a StreamReport,
    receiver: &'a StreamReport,
    is_up: bool,
) -> impl Iterator<Item = Track> + 'a {
    plan.streams().map(move |(flow, ue, family)| {
        let way = if is_up { "up" } else { "down" };
        let sent = sender.sent.get(&flow).map(Vec::as_slice).unwrap_or_default();
        let sent: Vec<f64> = sent.iter().map(|at_us| *at_us as f64 * 1e-6).collect();
        let arrived = receiver.arrived.get(&flow).map(Vec::as_slice).unwrap_or_default();
        let arrived = arrived.iter().map(|arrival| (arrival.sequence, arrival.took_us));
        let name = name(ue, family, way);
        Track::new(name, Route::of(ue, plan.size, is_up, !is_up), &sent, arrived)
    })
}

fn name(ue: Ue, family: Family, way: &str) -> String {
    format!("udp-{}-{}-{way}", ue.number, family.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::streams::Arrival;

    fn plan() -> Plan {
        Plan { ues_per_node: 4, is_controlled: true, ..Plan::sample() }
    }

    #[test]
    fn pings_and_transfers_enter_at_every_node_and_are_handled_at_every_node() {
        let (plan, phones) = (plan(), phones_of(&plan()));
        assert_eq!(phones.len(), 4);
        for node in plan.size.nodes() {
            assert!(phones.iter().any(|ue| ue.entry(plan.size) == node));
            assert!(phones.iter().any(|ue| ue.node == node && ue.entry(plan.size) != node));
        }
    }

    #[test]
    fn each_direction_of_a_stream_is_counted_by_what_its_other_end_received() {
        let mut phones = StreamReport::default();
        let mut host = StreamReport::default();
        phones.sent.insert(3, vec![1_000_000, 2_000_000]);
        host.sent.insert(3, vec![5_000_000]);
        host.arrived.insert(3, vec![Arrival { sequence: 1, took_us: 7 }]);
        let plan = plan();
        let up: Vec<Track> = streamed(&plan, &phones, &host, true).collect();
        let down: Vec<Track> = streamed(&plan, &host, &phones, false).collect();
        assert_eq!((up.len(), down.len()), (32, 32));
        let of = |tracks: &[Track], way: &str| {
            tracks.iter().find(|track| track.name == format!("udp-1-IPv6-{way}")).cloned().unwrap()
        };
        assert_eq!(of(&up, "up").packets, [(1.0, false), (2.0, true)]);
        assert_eq!(of(&down, "down").packets, [(5.0, false)]);
        assert!(of(&up, "up").route.up && !of(&up, "up").route.down);
    }

    #[test]
    fn a_route_crosses_the_fabric_between_its_own_two_nodes_only() {
        let [a, b, c] = [0, 1, 2].map(NodeId::new);
        let route = Route { entry: a, handling: b, up: true, down: false };
        assert!(route.crosses(a, b) && route.crosses(b, a) && !route.crosses(a, c));
        let home = Route { handling: a, ..route };
        assert!(home.meets(a) && !home.crosses(a, b) && !home.crosses(a, a));
    }
}
