//! Paced UDP between all hosts, and its losses.

use super::{NODES, host, host_name, pairs};
use crate::testbed::LabError;
use crate::testbed::ends::Verdict;
use crate::testbed::nodes::Process;
use crate::testbed::outages::loads::Route;
use crate::testbed::outages::track::{Damage, Moments, Track};
use crate::testbed::plan::Family;
use crate::testbed::probes;
use crate::testbed::router_lab::machines::Machines;
use crate::testbed::streams::mesh::flow_number;
use crate::testbed::streams::{END, read_one};
use rustix::process::Signal;
use scalebricks_types::NodeId;
use std::thread;
use std::time::Duration;

/// Time until all ends send to each other; earlier datagrams do not count.
const SETTLE: Duration = Duration::from_millis(500);

/// Time that an end may take to report.
const REPORT: Duration = Duration::from_secs(20);

/// Streams that are running.
#[derive(Debug)]
pub struct Streams {
    ends: Vec<Process>,
    from: f64,
}

/// What all flows did.
#[derive(Debug)]
pub struct Streamed {
    /// The packets of each flow; the route's nodes are those of its hosts.
    pub tracks: Vec<Track>,
    /// When all ends were sending, as Unix time in seconds.
    pub from: f64,
    /// Datagrams at the wrong host, or that no host sent.
    pub strange: u64,
}

impl Streams {
    /// Starts the streams, and waits until all ends send.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn start(machines: Machines<'_>) -> Result<Self, LabError> {
        let all =
            Family::ALL.into_iter().flat_map(|family| (0..NODES).map(move |number| host(number, family)));
        let addresses = all.map(|address| address.to_string()).collect::<Vec<_>>().join(",");
        let start = |number: u8| {
            let line = format!("lab mesh-streams --host {number} --address {addresses}");
            machines.0.helper(&format!("streams{number}"), &line, &machines.namespace(&host_name(number)))
        };
        let ends = (0..NODES).map(start).collect::<Result<Vec<_>, LabError>>()?;
        thread::sleep(SETTLE);
        Ok(Self { ends, from: probes::now() })
    }

    /// Stops them; what they did.
    ///
    /// # Errors
    /// [`LabError::Died`], or [`LabError::Setup`] if a report cannot be read.
    pub fn finish(self, machines: Machines<'_>) -> Result<Streamed, LabError> {
        self.ends.iter().try_for_each(|end| end.signal(Signal::INT))?;
        let mut reports = Vec::new();
        for end in self.ends {
            let end = end.await_word_for(END, REPORT, machines.0.interrupt)?;
            let report = read_one(end.log().trim_end());
            end.kill();
            reports
                .push(report.ok_or_else(|| LabError::Setup("a stream's report is incomplete".to_owned()))?);
        }
        let track = |(from, to): (u8, u8), family: Family| {
            let flow = flow_number(from, to, family);
            let sent: Vec<f64> = reports[usize::from(from)]
                .sent
                .get(&flow)
                .into_iter()
                .flatten()
                .map(|at| *at as f64 * 1e-6)
                .collect();
            let arrived = reports[usize::from(to)].arrived.get(&flow).into_iter().flatten();
            let route = Route { entry: NodeId::new(from), handling: NodeId::new(to), up: true, down: false };
            let name = format!("{from} to {to}, {}", family.name());
            Track::new(name, route, &sent, arrived.map(|arrival| (arrival.sequence, arrival.took_us)))
        };
        let tracks = pairs().flat_map(|pair| Family::ALL.map(|family| track(pair, family))).collect();
        let strange = reports.iter().map(|report| report.misdelivered + report.strange).sum();
        Ok(Streamed { tracks, from: self.from, strange })
    }
}

impl Streamed {
    /// The losses of the flows that `counts`.
    pub fn damage(&self, moments: Moments, counts: impl Fn(Route) -> bool) -> Damage {
        let tracks = self.tracks.iter().filter(|track| counts(track.route));
        tracks.map(|track| track.damage(moments)).fold(Damage::default(), Damage::and)
    }
}

/// Streams without a failure lose nothing.
///
/// # Errors
/// As [`Streams::start`].
pub fn calm(machines: Machines<'_>, lasts: Duration) -> Result<Verdict, LabError> {
    let streams = Streams::start(machines)?;
    let until = probes::now() + lasts.as_secs_f64();
    while probes::now() < until {
        machines.0.interrupt.check()?;
        thread::sleep(Duration::from_millis(20));
    }
    let end = probes::now();
    let streamed = streams.finish(machines)?;
    let damage = streamed.damage(Moments { from: streamed.from, at: end, repaired: end }, |_| true);
    let lost = damage.lost_before + damage.lost + damage.lost_after;
    let passed = lost == 0 && damage.doubled == 0 && streamed.strange == 0 && damage.sent > 100;
    let says = format!(
        "{} flows, {} datagrams, {lost} lost, {} twice, {} strange",
        damage.flows, damage.sent, damage.doubled, streamed.strange
    );
    Ok(Verdict::new(passed, says))
}
