//! One router between two routers of the kernel, which are its neighbours.
//!
//! ```text
//!     a ────────── k1 ──────────── r ──────────── k2 ────────── b
//!  10.1.0.2   10.1.0.1  192.0.2.2   .1  198.51.100.1   .2  10.2.0.1   10.2.0.2
//!  2001:db8:1::2        2001:db8:f1::2  ::1      2001:db8:f2::1  ::2        2001:db8:2::2
//! ```
//!
//! All cables carry packets of 1,700 octets, but the router forwards at most 1,500: hosts must learn that from its answers.

use super::ScenarioRun;
use super::machines::Machines;
use super::process::{Device, Router, tap};
use super::tunnel::says;
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::ends::{Ends, Stream, Verdict};
use crate::testbed::exec::Cmd;
use crate::testbed::plan::Family;
use crate::testbed::site::Role;
use crate::testbed::state;
use scalebricks_apps::router::server::Form;
use std::net::IpAddr;
use std::time::Duration;

/// MTU of the cables, octets.
const CABLE_MTU: u16 = 1_700;

/// Longest packet that the router forwards, octets.
const ROUTER_MTU: u16 = 1_500;

/// Octets of a file; a quick one has a tenth.
const FILE: u64 = 20_000_000;

/// Paced UDP, which must arrive.
const UDP: Stream = Stream::Udp { rate: "10M", most_lost_per_mille: 0.0 };

/// The router's file of routes: some beside those that are used, and longer ones inside shorter ones.
const ROUTES: &str = "\
10.0.0.0/8 192.0.2.2 1
10.1.0.0/16 192.0.2.2 1
10.2.0.0/16 198.51.100.2 2
10.2.99.0/24 192.0.2.99 1
203.0.113.0/25 198.51.100.2 2
";

const ROUTES6: &str = "\
2001:db8::/40 2001:db8:f1::2 1
2001:db8:1::/48 2001:db8:f1::2 1
2001:db8:2::/48 2001:db8:f2::2 2
";

/// How the router runs.
#[derive(Debug, Clone, Copy)]
struct Variant {
    form: Form,
    device: Device,
}

impl Variant {
    const fn is_click(self) -> bool {
        matches!(self.form, Form::Click)
    }

    fn name(self) -> String {
        let form = if self.is_click() { "element by element" } else { "one loop" };
        format!("{form}, {}", self.device.name())
    }
}

/// The first is checked in a quick run too, with the second.
const VARIANTS: [Variant; 4] = [
    Variant { form: Form::Fused, device: Device::PacketSocket },
    Variant { form: Form::Click, device: Device::XdpSocket },
    Variant { form: Form::Click, device: Device::PacketSocket },
    Variant { form: Form::Fused, device: Device::Tap },
];

/// The hosts' addresses, and the router's towards `a`.
const fn addresses(family: Family) -> (&'static str, &'static str, &'static str) {
    match family {
        Family::V4 => ("10.1.0.2", "10.2.0.2", "192.0.2.1"),
        Family::V6 => ("2001:db8:1::2", "2001:db8:2::2", "2001:db8:f1::1"),
    }
}

/// Builds the network with each variant of the router, and checks it.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>) -> Result<(), LabError> {
    let count = if run.is_quick { 2 } else { VARIANTS.len() };
    for variant in &VARIANTS[..count] {
        run.note(&variant.name());
        build(run.machines, variant.device)?;
        let router = start(run.machines, *variant)?;
        for host in ["a", "b"] {
            let namespace = run.machines.namespace(host);
            run.site().helper(&format!("file-server-{host}"), "lab file-server", &namespace)?;
        }
        one(run, *variant, router)?;
        run.clear()?;
    }
    Ok(())
}

fn build(machines: Machines<'_>, device: Device) -> Result<(), LabError> {
    for (machine, role) in [
        ("a", Role::Host),
        ("k1", Role::KernelRouter),
        ("r", Role::Bare),
        ("k2", Role::KernelRouter),
        ("b", Role::Host),
    ] {
        machines.add(machine, role)?;
    }
    for (a, b) in [
        (("a", "net"), ("k1", "host")),
        (("k1", "core"), ("r", "eth0")),
        (("r", "eth1"), ("k2", "core")),
        (("k2", "host"), ("b", "net")),
    ] {
        machines.cable(a, b, CABLE_MTU)?;
    }
    let six = |address| format!("{address}/64");
    for (machine, interface, v4, v6) in [
        ("a", "net", "10.1.0.2/24", "2001:db8:1::2"),
        ("k1", "host", "10.1.0.1/24", "2001:db8:1::1"),
        ("k1", "core", "192.0.2.2/24", "2001:db8:f1::2"),
        ("k2", "core", "198.51.100.2/24", "2001:db8:f2::2"),
        ("k2", "host", "10.2.0.1/24", "2001:db8:2::1"),
        ("b", "net", "10.2.0.2/24", "2001:db8:2::2"),
    ] {
        machines.addresses(machine, interface, &[v4, &six(v6)])?;
    }
    machines.routes("a", &[("default", "10.1.0.1"), ("default", "2001:db8:1::1")])?;
    machines.routes("k1", &[("default", "192.0.2.1"), ("default", "2001:db8:f1::1")])?;
    machines.routes("k2", &[("default", "198.51.100.1"), ("default", "2001:db8:f2::1")])?;
    machines.routes("b", &[("default", "10.2.0.1"), ("default", "2001:db8:2::1")])?;
    if device == Device::XdpSocket {
        // The kernels at the other ends must take packets that an XDP socket sent.
        for (machine, interface) in [("k1", "core"), ("k2", "core")] {
            machines.0.disable_offloads(&machines.namespace(machine), interface)?;
        }
    }
    Ok(())
}

fn start(machines: Machines<'_>, variant: Variant) -> Result<Router, LabError> {
    let site = machines.0;
    let [routes, routes6] = ["routes.txt", "routes6.txt"].map(|name| site.path(name));
    state::write(&routes, ROUTES.as_bytes())?;
    state::write(&routes6, ROUTES6.as_bytes())?;
    let click = if variant.is_click() { " --click" } else { "" };
    let line = format!(
        "router run --app route{click} --mtu {ROUTER_MTU} --routes {} --routes6 {} \
         --interface eth0=192.0.2.1/24,02:00:00:00:01:00,2001:db8:f1::1/64 \
         --interface eth1=198.51.100.1/24,02:00:00:00:01:01,2001:db8:f2::1/64",
        routes.display(),
        routes6.display()
    );
    let interfaces = ["eth0", "eth1"];
    let router = Router::start(machines, "r", &line, variant.device, &interfaces)?;
    if variant.device == Device::Tap {
        for interface in interfaces {
            let tap = tap(interface);
            machines.ip("r", &format!("link set {tap} mtu {CABLE_MTU} addrgenmode none up"))?;
            machines.bridge("r", &format!("br-{interface}"), &[&tap, interface])?;
        }
    }
    Ok(router)
}

fn one(run: &mut ScenarioRun<'_>, variant: Variant, router: Router) -> Result<(), LabError> {
    let named = |check: &str, family: Family| format!("{check}, {} ({})", family.name(), variant.name());
    let (machines, is_quick) = (run.machines, run.is_quick);
    let (a, b) = (machines.namespace("a"), machines.namespace("b"));
    for family in Family::ALL {
        let (from, to, router_address) = addresses(family);
        let ends = Ends { site: run.site(), client: &a, from: address(from), server: &b, to: address(to) };
        run.add(named("first ping through the router", family), first_ping(machines, family, to))?;
        run.add(named("ping", family), ends.ping(ROUTER_MTU))?;
        run.add(named("ping of the router itself", family), pings_router(machines, family, router_address))?;
        run.add(named("hop limit exceeded", family), expires(machines, family))?;
        run.add(named("too big a packet is answered", family), too_big(machines, family))?;
        if family == Family::V4 {
            run.add(named("fragments", family), fragments(machines))?;
        }
        run.add(named("no route is answered", family), unreachable(machines, family))?;
        let size = if is_quick { FILE / 10 } else { FILE };
        // The hosts begin with segments for their own cables, and learn the router's MTU.
        machines.forget_path_mtus(&["a", "b"])?;
        run.add(
            named("curl, upload with path MTU discovery", family),
            ends.send(size).and_then(|sent| {
                let mtu = machines.path_mtu("a", address(to))?;
                let passed = sent.passed && mtu == Some(ROUTER_MTU);
                Ok(Verdict::new(passed, format!("{}; a learned {mtu:?}", sent.says)))
            }),
        )?;
        run.add(named("curl, download", family), ends.fetch(size))?;
        if !is_quick {
            run.add(named("iperf3 TCP, Mb/s", family), ends.iperf3(Stream::Tcp, 2))?;
        }
        run.add(named("iperf3 UDP, Mb/s", family), ends.iperf3(UDP, if is_quick { 1 } else { 5 }))?;
    }
    // What the kernels send by themselves, and what was sent without a route or a next hop.
    let is_expected = |element: &str, reason: &str| {
        element == "other" || element == "never" || reason == "rate_limited" || reason.contains("unresolved")
    };
    let unexpected = router.drops(is_expected);
    let name = format!("what the router dropped ({})", variant.name());
    run.add(name, unexpected.map(|drops| Verdict::of_problems(&drops, "nothing unexpected")))?;
    let name = format!("SIGINT ({})", variant.name());
    run.add(name, router.end().map(|_| Verdict::new(true, "ended, and reported")))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)) // the constants above are addresses
}

/// Until the first packet passes, next hops are resolved on all cables.
fn first_ping(machines: Machines<'_>, family: Family, to: &str) -> Result<Verdict, LabError> {
    let line = format!("ping {} -n -c 1 -W 1 {to}", family.option());
    let mut tries = 0;
    let passed = poll(Duration::from_secs(30), Duration::from_millis(50), machines.0.interrupt, || {
        tries += 1;
        let ping = Cmd::new(&line).inside(&machines.namespace("a"));
        Ok(ping.finish(machines.0.interrupt)?.status.success().then_some(()))
    })?;
    Ok(Verdict::new(passed.is_some(), format!("after {tries} tries")))
}

fn pings_router(machines: Machines<'_>, family: Family, router: &str) -> Result<Verdict, LabError> {
    let output = machines.ask("a", &format!("ping {} -n -c 5 -i 0.02 -w 5 {router}", family.option()))?;
    Ok(says(&output, "5 received"))
}

/// A packet that expires at the second hop is answered by our router, and one that
/// expires at the third by the kernel router behind.
fn expires(machines: Machines<'_>, family: Family) -> Result<Verdict, LabError> {
    let (_, to, router) = addresses(family);
    let kernels = match family {
        Family::V4 => ["10.1.0.1", "198.51.100.2"],
        Family::V6 => ["2001:db8:1::1", "2001:db8:f2::2"],
    };
    let what = match family {
        Family::V4 => "Time to live exceeded",
        Family::V6 => "Time exceeded: Hop limit",
    };
    let mut path = Vec::new();
    for (hops, expected) in [(1, kernels[0]), (2, router), (3, kernels[1])] {
        let line = format!("ping {} -n -c 1 -W 3 -t {hops} {to}", family.option());
        let verdict = says(&machines.ask("a", &line)?, what);
        if !(verdict.passed && verdict.says.contains(&format!("From {expected} "))) {
            return Ok(Verdict::new(false, format!("hop {hops}: {}", verdict.says)));
        }
        path.push(expected);
    }
    Ok(Verdict::new(true, path.join(", ")))
}

/// A packet that is longer than the router's MTU and may not be fragmented is answered with that MTU.
fn too_big(machines: Machines<'_>, family: Family) -> Result<Verdict, LabError> {
    let (_, to, router) = addresses(family);
    let line = format!("ping {} -n -c 1 -W 3 -M do -s {} {to}", family.option(), CABLE_MTU - 48);
    let output = machines.ask("a", &line)?;
    let what = match family {
        Family::V4 => format!("From {router} icmp_seq=1 Frag needed and DF set (mtu = {ROUTER_MTU})"),
        Family::V6 => format!("From {router} icmp_seq=1 Packet too big: mtu={ROUTER_MTU}"),
    };
    Ok(says(&output, &what))
}

/// A packet that may be fragmented arrives in fragments.
fn fragments(machines: Machines<'_>) -> Result<Verdict, LabError> {
    // Without what the host learned, which would make it fragment by itself.
    machines.forget_path_mtus(&["a"])?;
    let line = format!("ping -4 -n -c 5 -i 0.02 -w 5 -M dont -s {} 10.2.0.2", CABLE_MTU - 28);
    Ok(says(&machines.ask("a", &line)?, "5 received"))
}

fn unreachable(machines: Machines<'_>, family: Family) -> Result<Verdict, LabError> {
    let router = addresses(family).2;
    let (to, what) = match family {
        Family::V4 => ("203.0.113.200", "Destination Net Unreachable"),
        Family::V6 => ("2001:db9::1", "Destination unreachable: No route"),
    };
    let output = machines.ask("a", &format!("ping {} -n -c 1 -W 3 {to}", family.option()))?;
    Ok(says(&output, &format!("From {router} icmp_seq=1 {what}")))
}
