//! What breaks: a link, a node, every frame. And what must go on meanwhile, and again afterwards.

use super::LabError;
use super::base_station::ask;
use super::counters::Observer;
use super::exec::Cmd;
use super::frames;
use super::network::Entry;
use super::plan::{Family, Link, Plan, Ue};
use super::report::{Ingress, Report, Round};
use super::session::Lab;
use super::traffic::{Traffic, Use, Verdict};
use scalebricks_console::{Console, Interrupt};
use scalebricks_types::NodeId;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// How long a link is down.
const DOWN: Duration = Duration::from_millis(1500);

/// How long it may take until all is well again.
const RECOVERY: Duration = Duration::from_secs(10);

/// Damaged frames.
const FRAMES: u64 = 60_000;

/// How long it may take to send them.
const STORM: Duration = Duration::from_secs(120);

/// Breaks things, one after the other.
///
/// # Errors
/// [`LabError`] if the lab itself does not work, or a node ends.
pub fn run(
    lab: &mut Lab<'_>,
    report: &mut Report,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let architecture = lab.plan.architecture.name();
    let round = Round { architecture, ingress: Ingress::Any };
    console.note("taking links down, and up again");
    for link in Link::ALL {
        // One over packet sockets, one over XDP sockets, if there are both.
        for node in [NodeId::new(0), NodeId::new(1)] {
            let verdict = flap(lab, interrupt, link, node)?;
            lab.check_alive()?;
            report.add(round.at(&format!("{} link down and up", link.at_node()), None, node.get(), verdict));
        }
    }
    // What becomes of a node's flows where others can take them is another matter: `scalebricks lab outages`.
    if !lab.plan.is_controlled {
        console.note("killing a node");
        let (without, with) = missing(lab, interrupt)?;
        report.add(round.of_all("the others, while a node is missing", without));
        report.add(round.of_all("that node, when it is back", with));
    }
    console.note("throwing damaged frames at all nodes, from all sides");
    let verdict = storm(lab, interrupt)?;
    if !verdict.passed {
        observer(lab, interrupt).look()?;
    }
    lab.check_alive()?;
    report.add(round.of_all("damaged frames", verdict));
    let verdict = strange_tunnel(lab)?;
    report.add(round.of_all("a tunnel that is not there", verdict));
    Ok(())
}

fn observer<'a>(lab: &'a Lab<'_>, interrupt: &'a Interrupt) -> Observer<'a> {
    Observer { plan: &lab.plan, processes: lab.processes(), interrupt }
}

fn traffic<'a>(lab: &'a Lab<'_>, interrupt: &'a Interrupt) -> Traffic<'a> {
    Traffic { plan: &lab.plan, interrupt, processes: lab.processes(), limit: Duration::from_secs(60) }
}

/// The first ping that fails.
fn ping(lab: &Lab<'_>, interrupt: &Interrupt, ue: Ue) -> Result<Verdict, LabError> {
    let mut verdict = Verdict { passed: true, says: String::new() };
    for family in Family::ALL {
        for what in [Use::PingUp, Use::PingDown] {
            verdict = traffic(lab, interrupt).run(what, ue, family)?;
            if !verdict.passed {
                return Ok(verdict);
            }
        }
    }
    Ok(verdict)
}

/// Pings until all are answered again.
fn recovery(lab: &Lab<'_>, interrupt: &Interrupt, ue: Ue) -> Result<Verdict, LabError> {
    let began = Instant::now();
    loop {
        let since = began.elapsed();
        let verdict = ping(lab, interrupt, ue)?;
        if verdict.passed {
            return Ok(Verdict { passed: true, says: format!("well after {:.1} s", since.as_secs_f64()) });
        }
        if since > RECOVERY {
            return Ok(verdict);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Another node than this one.
fn other(lab: &Lab<'_>, node: NodeId) -> NodeId {
    let size = lab.plan.size.get() as u8; // 16 at most
    NodeId::new((node.get() + 1) % size)
}

/// Takes a node's link down and up, with packets on their way to it all the time.
fn flap(lab: &Lab<'_>, interrupt: &Interrupt, link: Link, node: NodeId) -> Result<Verdict, LabError> {
    let network = lab.network();
    // Over the fabric, packets must cross it to be concerned.
    let (entry, ue) = match link {
        Link::Internet | Link::Ran => (node, Plan::ue_of(other(lab, node))),
        Link::Fabric => (other(lab, node), Plan::ue_of(node)),
    };
    network.enter(Entry::One(entry))?;
    let before = ping(lab, interrupt, ue)?;
    if !before.passed {
        return Ok(before);
    }
    network.set_port(link, node, false)?;
    let (from, to) = (ue.v4(), Family::V4.host());
    let line = format!("ping -4 -n -q -i 0.05 -w {} -I {from} {to}", DOWN.as_secs());
    let during = Cmd::new(&line).inside(&lab.plan.ue()).finish(interrupt);
    network.set_port(link, node, true)?;
    during?;
    recovery(lab, interrupt, ue)
}

/// Kills a node, and starts it again.
fn missing(lab: &mut Lab<'_>, interrupt: &Interrupt) -> Result<(Verdict, Verdict), LabError> {
    let Some(node) = lab.plan.size.nodes().last() else {
        return Err(LabError::Setup { what: "no node".to_owned() });
    };
    if let Some(process) = lab.nodes.remove(&node) {
        process.kill_at_once();
    }
    let mut without = Verdict { passed: true, says: String::new() };
    let others: Vec<NodeId> = lab.plan.size.nodes().filter(|other| *other != node).collect();
    for (entry, handling) in others.iter().flat_map(|entry| others.iter().map(move |other| (*entry, *other)))
    {
        lab.network().enter(Entry::One(entry))?;
        let verdict = ping(lab, interrupt, Plan::ue_of(handling))?;
        without.passed &= verdict.passed;
        if !verdict.passed {
            without.says = format!("in at {}, handled at {}: {}", entry.get(), handling.get(), verdict.says);
        }
    }
    if without.passed {
        without.says = format!("no ping lost between {} nodes", others.len());
    }
    let process = lab.processes().node(node)?;
    lab.nodes.insert(node, process);
    lab.network().enter(Entry::One(other(lab, node)))?;
    let with = recovery(lab, interrupt, Plan::ue_of(node))?;
    Ok((without, with))
}

/// Throws damaged frames, and looks whether all is well afterwards.
fn storm(lab: &Lab<'_>, interrupt: &Interrupt) -> Result<Verdict, LabError> {
    let observer = observer(lab, interrupt);
    let before = observer.nodes()?;
    let thrower = lab.processes().frames(FRAMES)?;
    for link in Link::ALL {
        lab.network().join(&frames::interface(link), link)?;
    }
    let thrower = thrower.await_word_for("done", STORM, interrupt)?;
    let after = observer.nodes()?;
    thrower.kill();
    for node in lab.plan.size.nodes() {
        lab.network().enter(Entry::One(node))?;
        for ue in lab.plan.size.nodes().map(Plan::ue_of) {
            let verdict = recovery(lab, interrupt, ue)?;
            if !verdict.passed {
                let says = format!("in at {}, handled at {}: {}", node.get(), ue.node.get(), verdict.says);
                return Ok(Verdict { passed: false, says });
            }
        }
    }
    let added = || after.iter().zip(&before).map(|(after, before)| after.since(before));
    let refused: u64 = added().flat_map(|counts| counts.dropped.into_values()).sum();
    let reasons: BTreeSet<String> = added().flat_map(|counts| counts.dropped.into_keys()).collect();
    let passed = refused > FRAMES / 10;
    let says =
        format!("{refused} of {FRAMES} refused for {} reasons; pings after that all well", reasons.len());
    Ok(Verdict { passed, says })
}

/// A packet in a tunnel that no node knows: the base station is told.
fn strange_tunnel(lab: &Lab<'_>) -> Result<Verdict, LabError> {
    let socket = lab.processes().base_station_socket();
    let count = || super::base_station::counts(&socket).map(|counts| counts.error_indications);
    lab.network().enter(Entry::One(NodeId::new(0)))?;
    let before = count()?;
    ask(&socket, "tunnel 4095")?;
    let began = Instant::now();
    let mut told = 0;
    while told == 0 && began.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(10));
        told = count()? - before;
    }
    Ok(Verdict { passed: told == 1, says: format!("{told} error indication") })
}
