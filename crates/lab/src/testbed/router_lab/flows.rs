//! A firewall and a NAT over four nodes: kernels' TCP through them while a node is drained and another one dies.
//!
//! ```text
//!   h0 … h3 ──(inside)── in  n0 … n3  out ──(outside)── server     hosts: 10.1.0.10 to .13; server: 198.51.100.100
//!                            fab (fabric, does not flood)          nodes: 10.1.0.1 to .4 inside, 198.51.100.1 to .4 outside
//!                            ctl (log: the NATS server)
//! ```
//!
//! Host `h` sends to node `h`, is pinned to node `h + 1`, and the server answers through node `h + 2`: every packet of both
//! directions must cross the fabric once.

mod nodes;

use super::ScenarioRun;
use super::machines::Machines;
use crate::testbed::LabError;
use crate::testbed::ends::{Ends, Verdict};
use crate::testbed::http;
use crate::testbed::site::Role;
use nodes::{Cluster, Kind, NODES, count};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// MTU of all cables, octets.
const MTU: u16 = 1_500;

/// The address of the server.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 100);

/// The node that is drained, and the one that is killed.
const DRAINED: u8 = 1;
const KILLED: u8 = 2;

/// Octets of each file while nodes leave, and the rate at which it is sent: 10 s.
const FILE: u64 = 2_000_000;
const RATE: &str = "200k";

/// Time that such a transfer may take: it waits for the detection of the death, and for TCP's timers.
const LIMIT: Duration = Duration::from_secs(45);

/// The address of an inside host.
const fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, 10 + number)
}

/// The node that an inside host is pinned to.
const fn pin(number: u8) -> u8 {
    (number + 1) % NODES
}

fn host_name(number: u8) -> String {
    format!("h{number}")
}

/// Builds each cluster, and checks it; why not, if there is no server for the log.
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
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        if at > 0 {
            run.clear()?;
        }
        one(run, kind, &nats)?;
    }
    Ok(None)
}

fn one(run: &mut ScenarioRun<'_>, kind: Kind, nats: &Path) -> Result<(), LabError> {
    let machines = run.machines;
    build(machines, kind)?;
    let _log = nodes::start_log(machines, kind, nats)?;
    let mut cluster = Cluster::start(machines, kind)?;
    cluster.pin((0..NODES).map(|number| (host(number), pin(number))))?;
    cluster.note_drops()?;
    let server = machines.namespace("server");
    run.site().helper(&format!("file-server-{}", kind.name()), "lab file-server", &server)?;

    let name = kind.name();
    let size = if run.is_quick { FILE / 10 } else { FILE };
    run.add(format!("{name}: a file to each inside host"), fetch_all(machines, size, ""))?;
    run.add(format!("{name}: one hop, and handled where it is pinned"), placed(&mut cluster))?;

    // Behind a NAT that has moved, the inside host must speak first (docs/nat.md): every two seconds it does.
    let transfers = || fetch_all(machines, FILE, &format!("--limit-rate {RATE} --keepalive-time 2"));
    let (done, drained) = thread::scope(|scope| {
        let transfers = scope.spawn(transfers);
        let left = leave(&mut cluster);
        let panicked = |_| Err(LabError::Setup("the transfers panicked".to_owned()));
        (transfers.join().unwrap_or_else(panicked), left)
    });
    let handled_at_drain = drained?;
    run.add(format!("{name}: files while node {DRAINED} is drained and node {KILLED} dies"), done)?;
    run.add(format!("{name}: nothing is handled at the drained node"), left(&cluster, handled_at_drain))?;
    run.add(format!("{name}: counters of the other nodes add up"), adds_up(&cluster))?;
    for (number, verdict) in cluster.stop() {
        run.add(format!("{name}: SIGTERM of node {number}"), verdict)?;
    }
    Ok(())
}

fn build(machines: Machines<'_>, kind: Kind) -> Result<(), LabError> {
    for bare in ["net", "log"] {
        machines.add(bare, Role::Bare)?;
    }
    machines.add("server", Role::Host)?;
    machines.cable(("server", "net"), ("net", "os"), MTU)?;
    machines.addresses("server", "net", &[&format!("{SERVER}/24")])?;
    let (mut inside, mut outside, mut fabric, mut control) =
        (Vec::new(), vec!["os".to_owned()], Vec::new(), Vec::new());
    for number in 0..NODES {
        let (name, node, n) = (host_name(number), nodes::name(number), number + 1);
        machines.add(&name, Role::Host)?;
        machines.add(&node, Role::Bare)?;
        machines.cable((&name, "net"), ("net", &format!("h{number}")), MTU)?;
        machines.addresses(&name, "net", &[&format!("{}/24", host(number))])?;
        machines.routes(&name, &[("default", &format!("10.1.0.{n}"))])?;
        for (interface, port) in [("in", "i"), ("out", "o"), ("fab", "f")] {
            machines.cable((&node, interface), ("net", &format!("{port}{number}")), MTU)?;
        }
        machines.cable((&node, "ctl"), ("log", &format!("c{number}")), MTU)?;
        machines.addresses(&node, "ctl", &[&format!("{}/24", nodes::control(number))])?;
        inside.extend([format!("h{number}"), format!("i{number}")]);
        outside.push(format!("o{number}"));
        fabric.push(format!("f{number}"));
        control.push(format!("c{number}"));
    }
    for (machine, name, ports) in [
        ("net", "inside", inside),
        ("net", "outside", outside),
        ("net", "fabric", fabric),
        ("log", "br", control),
    ] {
        machines.bridge(machine, name, &ports.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    machines.addresses("log", "br", &[&format!("{}/24", nodes::LOG)])?;
    nodes::fabric(machines)?;
    for number in 0..NODES {
        let back = format!("198.51.100.{}", (number + 2) % NODES + 1);
        match kind {
            Kind::Firewall => machines.routes("server", &[(&format!("{}/32", host(number)), &back)])?,
            Kind::Nat44 if number == 0 => machines.routes("server", &[(nodes::PUBLIC, &back)])?,
            Kind::Nat44 => {}
        }
    }
    Ok(())
}

/// Every inside host fetches a file from the server, all at once, with these options of curl.
fn fetch_all(machines: Machines<'_>, size: u64, options: &str) -> Result<Verdict, LabError> {
    let server = machines.namespace("server");
    let fetch = |number: u8| -> Result<Option<String>, LabError> {
        let client = machines.namespace(&host_name(number));
        let (from, to) = (IpAddr::V4(host(number)), IpAddr::V4(SERVER));
        let ends = Ends { site: machines.0, client: &client, from, server: &server, to };
        let done = match ends.curl(size, options).limit(LIMIT).finish(machines.0.interrupt) {
            Err(LabError::TooSlow { limit, .. }) => {
                return Ok(Some(format!("no end after {} s", limit.as_secs())));
            }
            done => done?,
        };
        let received = done.stdout.len() as u64;
        Ok(if !done.status.success() || received != size {
            Some(format!("{received} of {size} octets. {}", done.stderr.trim()))
        } else {
            http::first_difference(&done.stdout).map(|place| format!("octet {place} differs"))
        })
    };
    let problems: Vec<Result<Option<String>, LabError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..NODES).map(|number| scope.spawn(move || fetch(number))).collect();
        let panicked = |_| Err(LabError::Setup("a transfer panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut told = Vec::new();
    for (number, problem) in problems.into_iter().enumerate() {
        told.extend(problem?.map(|problem| format!("h{number}: {problem}")));
    }
    Ok(Verdict::of_problems(&told, &format!("{NODES} files of {size} octets are equal")))
}

/// Drains one node and kills another while files are being sent: what the drained node had handled once its pins had left.
fn leave(cluster: &mut Cluster<'_>) -> Result<u64, LabError> {
    cluster.wait(Duration::from_secs(2))?;
    cluster.drain(DRAINED)?;
    // The last packets that other nodes had sent there.
    cluster.wait(Duration::from_millis(500))?;
    let handled = count(&cluster.graph(DRAINED)?, nodes::HANDLED, "packets");
    cluster.wait(Duration::from_millis(1_500))?;
    cluster.kill(KILLED);
    Ok(handled)
}

/// Every packet of a pinned host has crossed the fabric once, and was handled at the host's node. The counters are read
/// node by node, so they agree once the last packets have passed.
fn placed(cluster: &mut Cluster<'_>) -> Result<Verdict, LabError> {
    for _ in 0..20 {
        let verdict = placed_now(cluster)?;
        if verdict.passed {
            return Ok(verdict);
        }
        cluster.wait(Duration::from_millis(100))?;
    }
    placed_now(cluster)
}

fn placed_now(cluster: &Cluster<'_>) -> Result<Verdict, LabError> {
    let (mut handled, mut crossed, mut entered, mut problems) = (Vec::new(), 0, 0, Vec::new());
    for number in 0..NODES {
        let graph = cluster.graph(number)?;
        handled.push(count(&graph, nodes::HANDLED, "packets"));
        crossed += count(&graph, &["to_fabric"], "sent");
        entered += count(&graph, &["from_internet", "from_base_station"], "received");
        for (elements, counter) in [(&["steer"][..], "forwarded_again"), (&["to_fabric"], "relayed")] {
            let times = count(&graph, elements, counter);
            if times > 0 {
                problems.push(format!("node {number}: {counter} {times}"));
            }
        }
        if handled.last() == Some(&0) {
            problems.push(format!("node {number} has handled nothing"));
        }
    }
    let all: u64 = handled.iter().sum();
    // With a NAT, packets from outside enter at one node, which is the pin of one host.
    let is_one_hop = if cluster.kind == Kind::Firewall { crossed == all } else { crossed <= all };
    if !is_one_hop || all > entered {
        problems.push(format!("{entered} entered, {all} handled, {crossed} crossed"));
    }
    Ok(Verdict::of_problems(
        &problems,
        &format!("{all} packets handled, by node {handled:?}; {crossed} crossed"),
    ))
}

fn left(cluster: &Cluster<'_>, before: u64) -> Result<Verdict, LabError> {
    let handled = count(&cluster.graph(DRAINED)?, nodes::HANDLED, "packets");
    Ok(Verdict::new(
        handled == before,
        format!("{handled} packets, {before} of them before its pins had left"),
    ))
}

/// What the appliances took is what they passed, refused and dropped; other drops have an expected reason.
fn adds_up(cluster: &Cluster<'_>) -> Result<Verdict, LabError> {
    let mut problems = Vec::new();
    let mut dropped = Vec::new();
    for number in (0..NODES).filter(|number| *number != KILLED) {
        let graph = cluster.graph(number)?;
        let took = count(&graph, nodes::HANDLED, "packets");
        let passed = count(&graph, &["to_next_hop"], "packets");
        let of_appliance = |name: &str| name.starts_with("appliance/");
        let refused: u64 = graph
            .elements
            .iter()
            .filter(|element| of_appliance(&element.name))
            .flat_map(|element| element.dropped.values())
            .sum();
        if took != passed + refused {
            problems.push(format!("node {number}: {took} taken, {passed} passed, {refused} dropped"));
        }
        for element in &graph.elements {
            let since =
                |reason: &str, count: u64| count - cluster.dropped_at_start(number, &element.name, reason);
            let counts = element.dropped.iter().map(|(reason, count)| (reason, since(reason, *count)));
            dropped.extend(
                counts
                    .filter(|(_, count)| *count > 0)
                    .map(|(reason, count)| format!("node {number}: {}.{reason} {count}", element.name)),
            );
        }
    }
    // The pins of a node that died: its packets, until the death is detected and its pins have heirs.
    let is_expected = |drop: &String| {
        [
            "unknown_flow",
            "for_this_node",
            "non_ip",
            "multicast",
            "unresolved",
            "other_mac",
            "no_such_node",
            "refused",
            "appliance/",
        ]
        .iter()
        .any(|reason| drop.contains(reason))
    };
    problems.extend(dropped.iter().filter(|drop| !is_expected(drop)).cloned());
    Ok(Verdict::of_problems(&problems, &format!("drops: {dropped:?}")))
}
