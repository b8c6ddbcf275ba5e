//! A cluster router of four nodes over real links: a full mesh, and one external port each with a host behind it.
//!
//! ```text
//!   h0 ──(lan)── ext0 n0 node1 ──(bridge)── node0 n1 ext0 ──(lan)── h1   each host: 10.N.0.2, 2001:db8:N::2, N from 1
//!                        node2 ──(bridge)── node0 n2 ext0 ──(lan)── h2   each node: 10.N.0.1, 2001:db8:N::1 at its port
//!                        node3 ──(bridge)── node0 n3 ext0 ──(lan)── h3   frr: a speaker of BGP at each lan, 10.N.0.3
//!                                                                        log: the NATS server that all nodes follow
//! ```
//!
//! The bridges of all links are in one namespace. They do not learn, so each is a cable that can be cut in one direction.

mod bgp;
mod failures;
mod nodes;
mod streams;

use super::ScenarioRun;
use super::machines::Machines;
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::ends::{Ends, Verdict};
use crate::testbed::exec::Cmd;
use crate::testbed::plan::Family;
use crate::testbed::site::Role;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

/// Nodes, and hosts.
pub const NODES: u8 = 4;

/// MTU of all cables, octets.
const MTU: u16 = 1_500;

/// Octets of each file; a quick one has a tenth.
const FILE: u64 = 5_000_000;

/// Time until all hosts must reach each other.
const CONVERGE: Duration = Duration::from_secs(60);

/// How long streams run without a failure; a quick run has a quarter.
const CALM: Duration = Duration::from_secs(12);

/// A host's address.
pub const fn host(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, number + 1, 0, 2)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, number as u16 + 1, 0, 0, 0, 0, 2)),
    }
}

/// The names of a host's and of a node's machine.
pub fn host_name(number: u8) -> String {
    format!("h{number}")
}

/// The same for nodes.
pub fn node_name(number: u8) -> String {
    format!("n{number}")
}

/// The port of a link's bridge at the end of a node.
pub fn bridge_port(node: u8, peer: u8) -> String {
    format!("l{node}{peer}")
}

/// All ordered pairs of hosts.
pub fn pairs() -> impl Iterator<Item = (u8, u8)> {
    (0..NODES).flat_map(|from| (0..NODES).filter(move |to| *to != from).map(move |to| (from, to)))
}

/// Builds the cluster, and checks it; why not, if there is no server for the log.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>) -> Result<Option<String>, LabError> {
    let Some(nats) = run.nats.clone() else {
        return Ok(Some(
            "no NATS server (scripts/nats.sh path finds or builds one, and scripts/lab.sh passes it)"
                .to_owned(),
        ));
    };
    let machines = run.machines;
    build(machines)?;
    let _log = nodes::start_log(machines, &nats)?;
    let mut cluster = nodes::Cluster::start(machines)?;
    for number in 0..NODES {
        let name = host_name(number);
        run.site().helper(&format!("file-server-{name}"), "lab file-server", &machines.namespace(&name))?;
    }
    let began = Instant::now();
    for family in Family::ALL {
        let first = reachable(machines, family, &all_pairs(), CONVERGE);
        run.add(
            format!("all hosts reach each other, {}", family.name()),
            first.map(|unreached| {
                let says = format!("{unreached:?} do not; after {:.1} s", began.elapsed().as_secs_f64());
                Verdict::new(
                    unreached.is_empty(),
                    if unreached.is_empty() { says.replace("[] do not; ", "") } else { says },
                )
            }),
        )?;
    }
    for family in Family::ALL {
        let size = if run.is_quick { FILE / 10 } else { FILE };
        run.add(format!("12 files at once, {}", family.name()), files(run, family, size))?;
    }
    let lasts = if run.is_quick { CALM / 4 } else { CALM };
    run.add("paced UDP between all hosts", streams::calm(machines, lasts))?;
    if bgp::is_there() {
        bgp::check(run)?;
    } else {
        run.note("  no routes by BGP without FRR (on Debian: apt-get install frr)");
    }
    failures::check(run, &mut cluster)?;
    for (number, verdict) in cluster.stop() {
        run.add(format!("SIGTERM of node {number}"), verdict)?;
    }
    Ok(None)
}

fn all_pairs() -> Vec<(u8, u8)> {
    pairs().collect()
}

fn build(machines: Machines<'_>) -> Result<(), LabError> {
    machines.add("mesh", Role::Bare)?;
    machines.add("log", Role::Bare)?;
    machines.add("lan", Role::Bare)?;
    machines.add(bgp::SPEAKER, Role::Host)?;
    machines.cable((bgp::SPEAKER, "ctl"), ("log", "speaker"), MTU)?;
    machines.addresses(bgp::SPEAKER, "ctl", &[&format!("{}/24", nodes::SPEAKER_CONTROL)])?;
    for number in 0..NODES {
        let (host_machine, node) = (host_name(number), node_name(number));
        machines.add(&host_machine, Role::Host)?;
        machines.add(&node, Role::Bare)?;
        let n = number + 1;
        let speaker = format!("e{number}");
        let ends =
            [(host_machine.as_str(), "net"), (node.as_str(), "ext0"), (bgp::SPEAKER, speaker.as_str())];
        for (machine, interface) in ends {
            let port = format!("{}{number}", machine.get(..1).unwrap_or(machine));
            machines.cable((machine, interface), ("lan", &port), MTU)?;
        }
        let ports = ["h", "n", "f"].map(|end| format!("{end}{number}"));
        machines.bridge("lan", &format!("lan{number}"), &ports.each_ref().map(String::as_str))?;
        machines.addresses(bgp::SPEAKER, &speaker, &[&format!("10.{n}.0.3/24")])?;
        machines.addresses(
            &host_machine,
            "net",
            &[&format!("{}/24", host(number, Family::V4)), &format!("{}/64", host(number, Family::V6))],
        )?;
        machines.routes(
            &host_machine,
            &[("default", &format!("10.{n}.0.1")), ("default", &format!("2001:db8:{n}::1"))],
        )?;
        // The network of the control plane uses the kernel's stack.
        machines.cable((&node, "ctl"), ("log", &format!("c{number}")), MTU)?;
        machines.addresses(&node, "ctl", &[&format!("10.254.0.{n}/24")])?;
    }
    let ports: Vec<String> =
        (0..NODES).map(|number| format!("c{number}")).chain(["speaker".to_owned()]).collect();
    machines.bridge("log", "br", &ports.iter().map(String::as_str).collect::<Vec<_>>())?;
    machines.addresses("log", "br", &[&format!("{}/24", nodes::LOG)])?;
    for (node, peer) in pairs().filter(|(node, peer)| node < peer) {
        for (node, peer) in [(node, peer), (peer, node)] {
            let (interface, port) = (format!("node{peer}"), bridge_port(node, peer));
            machines.cable((&node_name(node), &interface), ("mesh", &port), MTU)?;
        }
        let ports = [bridge_port(node, peer), bridge_port(peer, node)];
        machines.bridge("mesh", &format!("b{node}{peer}"), &[&ports[0], &ports[1]])?;
        for port in &ports {
            let off = Cmd::new(&format!("bridge link set dev {port} learning off"));
            off.inside(&machines.namespace("mesh")).run(machines.0.interrupt)?;
        }
    }
    Ok(())
}

/// Pings each of the pairs until it is answered; the pairs that were not within the limit.
///
/// # Errors
/// [`LabError::Interrupted`], or a program that cannot be started.
pub fn reachable(
    machines: Machines<'_>,
    family: Family,
    pairs: &[(u8, u8)],
    limit: Duration,
) -> Result<Vec<(u8, u8)>, LabError> {
    let mut left = pairs.to_vec();
    poll(limit, Duration::from_millis(100), machines.0.interrupt, || {
        let mut still = Vec::new();
        for (from, to) in left.drain(..) {
            let line = format!("ping {} -n -c 1 -W 1 {}", family.option(), host(to, family));
            let ping = Cmd::new(&line).inside(&machines.namespace(&host_name(from)));
            if !ping.finish(machines.0.interrupt)?.status.success() {
                still.push((from, to));
            }
        }
        left = still;
        Ok(left.is_empty().then_some(()))
    })?;
    Ok(left)
}

/// Every host fetches a file from each other one, all at once.
fn files(run: &ScenarioRun<'_>, family: Family, size: u64) -> Result<Verdict, LabError> {
    let (site, machines, began) = (run.site(), run.machines, Instant::now());
    let fetched: Vec<((u8, u8), Result<Verdict, LabError>)> = thread::scope(|scope| {
        let fetch = |(from, to): (u8, u8)| {
            let thread = scope.spawn(move || {
                let (client, server) =
                    (machines.namespace(&host_name(from)), machines.namespace(&host_name(to)));
                let (from, to) = (host(from, family), host(to, family));
                Ends { site, client: &client, from, server: &server, to }.fetch(size)
            });
            ((from, to), thread)
        };
        let threads: Vec<_> = pairs().map(fetch).collect();
        let ended = threads.into_iter().map(|(pair, thread)| {
            let panicked = |_| Err(LabError::Setup("a transfer panicked".to_owned()));
            (pair, thread.join().unwrap_or_else(panicked))
        });
        ended.collect()
    });
    let mut failed = Vec::new();
    for (pair, verdict) in fetched {
        let verdict = Verdict::or_too_slow(verdict)?;
        if !verdict.passed {
            failed.push(format!("{pair:?}: {}", verdict.says));
        }
    }
    let count = pairs().count() as u64;
    let rate = (size * count) as f64 * 8e-6 / began.elapsed().as_secs_f64();
    Ok(Verdict::of_problems(&failed, &format!("all equal, {rate:.0} Mb/s together")))
}
