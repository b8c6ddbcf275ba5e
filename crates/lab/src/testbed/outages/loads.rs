//! Three loads at once: pings, paced UDP and TCP transfers, each between a phone and the Internet host, during an outage.

use super::list::Place;
use super::track::{Damage, Moments, Track};
use crate::testbed::LabError;
use crate::testbed::context::LabContext;
use crate::testbed::nodes::Process;
use crate::testbed::plan::{Plan, Ue};
use crate::testbed::probes::{self, Answers, Probes};
use crate::testbed::streams::{self, StreamEnd, StreamReport};
use crate::testbed::transfers::{Finished, Transfers};
use rustix::process::Signal;
use scalebricks_console::Interrupt;
use scalebricks_types::{ClusterSize, NodeId};
use std::thread;
use std::time::Duration;

/// Time that an end of the streams may take to report.
const REPORT: Duration = Duration::from_secs(10);

/// How long loads run before an outage, and after the cluster has recovered.
pub const CALM: Duration = Duration::from_secs(1);

/// How long loads run before they count.
const WARM: Duration = Duration::from_millis(500);

/// How much longer than the outage the transfers take.
const BEYOND: Duration = Duration::from_secs(3);

/// The nodes that a flow's packets meet, and their directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The node where they enter.
    pub entry: NodeId,
    /// Their handling node, where they leave.
    pub handling: NodeId,
    /// Whether some go to the Internet.
    pub up: bool,
    /// Whether some go to a phone.
    pub down: bool,
}

impl Route {
    /// The route of a phone's packets while each phone has its own entry node.
    const fn of(ue: Ue, size: ClusterSize, up: bool, down: bool) -> Self {
        Self { entry: ue.entry(size), handling: ue.node, up, down }
    }

    /// Whether the packets meet a node.
    pub fn meets(self, node: NodeId) -> bool {
        self.entry == node || self.handling == node
    }

    /// Whether the packets cross the fabric between two nodes, in either direction.
    pub fn crosses(self, a: NodeId, b: NodeId) -> bool {
        a != b && self.meets(a) && self.meets(b)
    }
}

/// The loads while they run.
pub struct Loads {
    probes: Probes,
    /// The ends of the streams: phones and host.
    ends: [Process; 2],
    transfers: Transfers,
    /// When loads began to count, as Unix time in seconds.
    from: f64,
}

/// The results of the loads.
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
    /// Starts the loads for an outage of this length, and waits until it may begin.
    ///
    /// # Errors
    /// As [`LabContext::start`].
    pub fn start(context: LabContext<'_>, lasts: Duration) -> Result<Self, LabError> {
        let plan = context.plan;
        let end = |end: StreamEnd, namespace: &str| {
            let (name, nodes, phones) = (end.name(), plan.size.get(), plan.ues().count());
            let line = format!("lab streams --end {name} --nodes {nodes} --phones {phones}");
            context.helper(&format!("streams-{name}"), &line, namespace)
        };
        let host = end(StreamEnd::Host, &plan.inet())?;
        let phones = end(StreamEnd::Phones, &plan.ue())?;
        let probes = Probes::start(context, &phones_of(plan))?;
        let transfers = Transfers::start(context, &phones_of(plan), CALM + lasts + BEYOND)?;
        thread::sleep(WARM);
        let from = probes::now();
        thread::sleep(CALM);
        Ok(Self { probes, ends: [phones, host], transfers, from })
    }

    /// When loads began to count, as Unix time in seconds.
    pub const fn from(&self) -> f64 {
        self.from
    }

    /// Stops pings and streams, waits for the transfers, and evaluates all of them.
    ///
    /// # Errors
    /// [`LabError`] if one had ended, or does not report.
    pub fn finish(self, plan: &Plan, interrupt: &Interrupt) -> Result<Results, LabError> {
        self.ends.iter().try_for_each(|end| end.signal(Signal::INT))?;
        let answers = self.probes.finish(interrupt)?;
        let mut tracks: Vec<Track> = answers.iter().map(|answers| pinged(answers, plan.size)).collect();
        let [phones, host] = self.ends.map(|end| -> Result<String, LabError> {
            let ended = end.await_word_for(streams::END, REPORT, interrupt)?;
            let log = ended.log();
            ended.kill();
            Ok(log)
        });
        let [phones, host] = streams::read(&phones?, &host?)
            .ok_or_else(|| LabError::Setup("cannot parse the report of a stream's end".to_owned()))?;
        tracks.extend(streamed(plan, &phones, &host, true));
        tracks.extend(streamed(plan, &host, &phones, false));
        let transfers = self.transfers.finish(interrupt)?;
        let misdelivered = phones.misdelivered + host.misdelivered;
        Ok(Results { tracks, misdelivered, transfers })
    }
}

impl Results {
    /// The losses of affected and other routes.
    pub fn damage(
        &self,
        place: Place,
        affects: fn(Place, Route) -> bool,
        moments: Moments,
    ) -> (Damage, Damage) {
        let (mut affected, mut others) = (Damage::default(), Damage::default());
        for track in &self.tracks {
            let part = if affects(place, track.route) { &mut affected } else { &mut others };
            *part = part.and(track.damage(moments));
        }
        (affected, others)
    }
}

/// The phones that ping and transfer files: for each node one that enters there and is handled at the next node.
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
        let sent = sender.sent.get(&flow).into_iter().flatten();
        let sent: Vec<f64> = sent.map(|at_us| *at_us as f64 * 1e-6).collect();
        let arrived = receiver.arrived.get(&flow).into_iter().flatten();
        let arrived = arrived.map(|arrival| (arrival.sequence, arrival.took_us));
        let name = format!("udp-{}-{}-{way}", ue.number, family.name());
        Track::new(name, Route::of(ue, plan.size, is_up, !is_up), &sent, arrived)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::streams::Arrival;

    fn plan() -> Plan {
        Plan { ues_per_node: 4, is_controlled: true, ..Plan::sample() }
    }

    #[test]
    fn every_node_is_entry_and_handling_node_of_pings_and_transfers() {
        let (plan, phones) = (plan(), phones_of(&plan()));
        assert_eq!(phones.len(), 4);
        for node in plan.size.nodes() {
            assert!(phones.iter().any(|ue| ue.entry(plan.size) == node));
            assert!(phones.iter().any(|ue| ue.node == node && ue.entry(plan.size) != node));
        }
    }

    #[test]
    fn each_direction_of_a_stream_is_counted_at_its_receiver() {
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
    fn a_route_crosses_the_fabric_only_between_its_own_two_nodes() {
        let [a, b, c] = [0, 1, 2].map(NodeId::new);
        let route = Route { entry: a, handling: b, up: true, down: false };
        assert!(route.crosses(a, b) && route.crosses(b, a) && !route.crosses(a, c));
        let home = Route { handling: a, ..route };
        assert!(home.meets(a) && !home.crosses(a, b) && !home.crosses(a, a));
    }
}
