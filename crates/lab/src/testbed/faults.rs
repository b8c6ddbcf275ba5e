//! Faults: a link down, a killed node, damaged frames. And the traffic that must continue meanwhile and recover afterwards.

use super::LabError;
use super::damaged_frames;
use super::ends::Verdict;
use super::exec::Cmd;
use super::lab::Lab;
use super::network::Entry;
use super::nodes::CAPTURE;
use super::plan::{Family, NodePort, Plan, Ue};
use super::report::{Ingress, Report, Round};
use super::rounds::since;
use super::traffic::Use;
use scalebricks_types::NodeId;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// How long a link is down.
const DOWN: Duration = Duration::from_millis(1500);

/// Time until traffic must have recovered.
const RECOVERY: Duration = Duration::from_secs(10);

/// Number of damaged frames.
const FRAMES: u64 = 60_000;

/// Time that sending them may take.
const STORM: Duration = Duration::from_secs(120);

/// Tests the faults one after the other.
///
/// # Errors
/// [`LabError`] if the lab itself does not work, or a node ends.
pub fn run(lab: &mut Lab<'_>, report: &mut Report) -> Result<(), LabError> {
    let round = Round { architecture: lab.plan.architecture.name(), ingress: Ingress::Any };
    lab.console.note("taking links down and up");
    for port in NodePort::ALL {
        // With mixed drivers, one of them uses packet sockets, the other XDP sockets.
        for node in [NodeId::new(0), NodeId::new(1)] {
            let verdict = flap(lab, port, node)?;
            lab.check_running()?;
            report.add(round.at(
                &format!("{} link down and up", port.interface()),
                None,
                node.get(),
                verdict,
            ));
        }
    }
    // With a control plane other nodes take over the flows of a killed node: `scalebricks lab outages` tests that.
    if !lab.plan.is_controlled {
        lab.console.note("killing a node");
        let (without, with) = killed_node(lab)?;
        report.add(round.of_all("the others, while a node is missing", without));
        report.add(round.of_all("that node, when it is back", with));
    }
    lab.console.note("sending damaged frames to all nodes over all links");
    let verdict = damaged(lab)?;
    if !verdict.passed {
        lab.context().write_status()?;
    }
    lab.check_running()?;
    report.add(round.of_all("damaged frames", verdict));
    lab.context().enter(Entry::One(NodeId::new(0)))?;
    let errors = lab.context().ask_and_count("tunnel 4095", |counts| counts.error_indications)?;
    let verdict = Verdict::new(errors == 1, format!("{errors} error indication"));
    report.add(round.of_all("a tunnel that is not there", verdict));
    Ok(())
}

/// Pings a phone in both directions over both families; the first verdict that fails, else the last.
fn ping(lab: &Lab<'_>, ue: Ue) -> Result<Verdict, LabError> {
    let mut verdict = Verdict::new(true, "");
    for family in Family::ALL {
        for what in [Use::PingUp, Use::PingDown] {
            if verdict.passed {
                verdict = lab.context().use_network(what, ue, family)?;
            }
        }
    }
    Ok(verdict)
}

/// Pings a phone until all pings are answered.
fn recovery(lab: &Lab<'_>, ue: Ue) -> Result<Verdict, LabError> {
    let began = Instant::now();
    loop {
        let since = began.elapsed();
        let verdict = ping(lab, ue)?;
        if verdict.passed {
            return Ok(Verdict::new(true, format!("well after {:.1} s", since.as_secs_f64())));
        }
        if since > RECOVERY {
            return Ok(verdict);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The node after this one.
fn next(lab: &Lab<'_>, node: NodeId) -> NodeId {
    let size = lab.plan.size.get() as u8; // at most 16
    NodeId::new((node.get() + 1) % size)
}

/// Takes a node's link down and up while packets are sent over it.
fn flap(lab: &Lab<'_>, port: NodePort, node: NodeId) -> Result<Verdict, LabError> {
    let context = lab.context();
    // For the fabric, the packets must cross it.
    let (entry, ue) = match port {
        NodePort::Internet | NodePort::Ran => (node, Plan::ue_of(next(lab, node))),
        NodePort::Fabric => (next(lab, node), Plan::ue_of(node)),
    };
    context.enter(Entry::One(entry))?;
    let before = ping(lab, ue)?;
    if !before.passed {
        return Ok(before);
    }
    context.set_port(port, node, false)?;
    let (from, to) = (ue.v4(), Family::V4.host());
    let line = format!("ping -4 -n -q -i 0.05 -w {} -I {from} {to}", DOWN.as_secs());
    let during = Cmd::new(&line).inside(&lab.plan.ue()).finish(lab.interrupt);
    context.set_port(port, node, true)?;
    during?;
    recovery(lab, ue)
}

/// Pings over each of these entry nodes to the phone of each of these handling nodes; the explanation of the last failure.
fn pairs(
    lab: &Lab<'_>,
    nodes: &[NodeId],
    ping: fn(&Lab<'_>, Ue) -> Result<Verdict, LabError>,
) -> Result<Option<String>, LabError> {
    let mut failed = None;
    for entry in nodes {
        lab.context().enter(Entry::One(*entry))?;
        for handling in nodes {
            let verdict = ping(lab, Plan::ue_of(*handling))?;
            if !verdict.passed {
                let (entry, handling, why) = (entry.get(), handling.get(), verdict.says);
                failed = Some(format!("in at {entry}, handled at {handling}: {why}"));
            }
        }
    }
    Ok(failed)
}

/// Kills a node, and starts it again.
fn killed_node(lab: &mut Lab<'_>) -> Result<(Verdict, Verdict), LabError> {
    let nodes: Vec<NodeId> = lab.plan.size.nodes().collect();
    let Some((node, others)) = nodes.split_last() else {
        return Err(LabError::Setup("no node".to_owned()));
    };
    if let Some(process) = lab.nodes.remove(node) {
        process.kill_at_once();
    }
    let failed = pairs(lab, others, ping)?;
    let none = || format!("no ping lost between {} nodes", others.len());
    let without = Verdict::new(failed.is_none(), failed.unwrap_or_else(none));
    let process = lab.context().node(*node)?;
    lab.nodes.insert(*node, process);
    lab.context().enter(Entry::One(next(lab, *node)))?;
    Ok((without, recovery(lab, Plan::ue_of(*node))?))
}

/// Sends damaged frames, and checks that traffic recovers.
fn damaged(lab: &Lab<'_>) -> Result<Verdict, LabError> {
    let context = lab.context();
    let before = context.settled_counts()?;
    let corpus = context.path(format!("{CAPTURE}.pcapng"));
    let line = format!("lab damaged-frames --count {FRAMES} --seed 1 --corpus {}", corpus.display());
    let sender = context.helper("damaged-frames", &line, &lab.plan.switch())?;
    NodePort::ALL.iter().try_for_each(|port| context.join(&damaged_frames::interface(*port), *port))?;
    let sender = sender.await_word_for("done", STORM, lab.interrupt)?;
    let added = since(&context.settled_counts()?, &before);
    sender.kill();
    let nodes: Vec<NodeId> = lab.plan.size.nodes().collect();
    if let Some(failed) = pairs(lab, &nodes, recovery)? {
        return Ok(Verdict::new(false, failed));
    }
    let refused: u64 = added.iter().flat_map(|counts| counts.dropped.values()).sum();
    let reasons: BTreeSet<&String> = added.iter().flat_map(|counts| counts.dropped.keys()).collect();
    let says =
        format!("{refused} of {FRAMES} refused for {} reasons; pings after that all well", reasons.len());
    Ok(Verdict::new(refused > FRAMES / 10, says))
}
