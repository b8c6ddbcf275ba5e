//! Live routes: the hosts are routers that announce networks by BGP. A speaker with an address in the network of each
//! port selects routes, and its zebra sends them to node 0. All of them are FRR.

use super::{NODES, host_name, nodes};
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::ends::Verdict;
use crate::testbed::exec::Cmd;
use crate::testbed::nodes::Process;
use crate::testbed::router_lab::ScenarioRun;
use crate::testbed::router_lab::machines::Machines;
use crate::testbed::state;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where Debian's package has its daemons.
const DAEMONS: &str = "/usr/lib/frr";

/// The speaker's machine.
pub const SPEAKER: &str = "frr";

/// Time until announced networks must be reachable, or withdrawn ones not any more.
const CONVERGE: Duration = Duration::from_secs(40);

/// The host whose BGP ends.
const VICTIM: u8 = 1;

/// Whether FRR is installed.
pub fn is_there() -> bool {
    Path::new(DAEMONS).join("bgpd").exists()
}

/// An address in the network that a host announces.
const fn behind(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, 16 * host + 1)
}

/// zebra and bgpd of a machine, killed by the removal of the lab; their directory is removed when this value is dropped.
#[derive(Debug)]
struct Daemons {
    running: Vec<Process>,
    directory: PathBuf,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // They keep writing their files while they run.
        self.running.drain(..).for_each(Process::kill_at_once);
        drop(fs::remove_dir_all(&self.directory));
    }
}

impl Daemons {
    fn start(machines: Machines<'_>, machine: &str, text: &str, module: &str) -> Result<Self, LabError> {
        let (site, namespace) = (machines.0, machines.namespace(machine));
        let file = site.path(format!("{machine}.frr.conf"));
        state::write(&file, text.as_bytes())?;
        let directory = Path::new("/var/run/frr").join(&namespace);
        Cmd::new("install -d -o frr -g frr").arg(directory.to_string_lossy()).run(site.interrupt)?;
        let mut daemons = Self { running: Vec::new(), directory };
        for (daemon, module) in [("zebra", module), ("bgpd", "")] {
            let line = format!("{DAEMONS}/{daemon} -N {namespace} -f {} {module}", file.display());
            let mut process =
                site.start(&format!("{machine}-{daemon}"), &Cmd::new(&line).inside(&namespace))?;
            let socket = daemons.directory.join(format!("{daemon}.vty"));
            let listens = poll(CONVERGE, Duration::from_millis(20), site.interrupt, || {
                process.check_running()?;
                Ok(socket.exists().then_some(()))
            })?;
            daemons.running.push(process);
            listens.ok_or(LabError::TooSlow { command: line, limit: CONVERGE })?;
        }
        Ok(daemons)
    }
}

fn start_host(machines: Machines<'_>, host: u8) -> Result<Daemons, LabError> {
    let n = host + 1;
    let text = format!(
        "router bgp {}\n bgp router-id 10.{n}.0.2\n no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp 1 3\n \
         neighbor 10.{n}.0.3 remote-as 65000\n neighbor 10.{n}.0.3 timers connect 1\n address-family ipv4 unicast\n  network {}/28\n",
        65_001 + u32::from(host),
        Ipv4Addr::from_bits(behind(host).to_bits() & !15)
    );
    Daemons::start(machines, &host_name(host), &text, "")
}

fn start_speaker(machines: Machines<'_>) -> Result<Daemons, LabError> {
    let neighbours = |line: fn(u8, u32) -> String| -> String {
        (0..NODES).map(|host| line(host + 1, 65_001 + u32::from(host))).collect()
    };
    // It announces nothing to the hosts: they would send to it instead of the cluster.
    let text = format!(
        "fpm address {} port {}\nrouter bgp 65000\n bgp router-id {}\n no bgp ebgp-requires-policy\n timers bgp 1 3\n{} \
         address-family ipv4 unicast\n{} exit-address-family\nexit\nroute-map NOTHING deny 10\n",
        nodes::FPM.0,
        nodes::FPM.1,
        nodes::SPEAKER_CONTROL,
        neighbours(|n, number| format!(
            " neighbor 10.{n}.0.2 remote-as {number}\n neighbor 10.{n}.0.2 timers connect 1\n"
        )),
        neighbours(|n, _| format!("  neighbor 10.{n}.0.2 route-map NOTHING out\n")),
    );
    Daemons::start(machines, SPEAKER, &text, "-M dplane_fpm_nl")
}

/// Starts all speakers, and checks that their networks are reached through the cluster, and only while they are announced.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>) -> Result<(), LabError> {
    let machines = run.machines;
    for host in 0..NODES {
        machines.addresses(&host_name(host), "lo", &[&format!("{}/32", behind(host))])?;
    }
    let speaker = start_speaker(machines)?;
    let mut hosts =
        (0..NODES).map(|host| start_host(machines, host)).collect::<Result<Vec<_>, LabError>>()?;
    let all: Vec<(u8, u8)> = super::pairs().collect();
    run.add("networks announced by BGP are reached", answered(machines, &all, "bytes from"))?;
    drop(hosts.remove(usize::from(VICTIM)));
    let to_victim: Vec<(u8, u8)> = all.iter().copied().filter(|(_, to)| *to == VICTIM).collect();
    run.add("BGP of a host ends: its network is withdrawn", answered(machines, &to_victim, "Unreachable"))?;
    let back = start_host(machines, VICTIM)?;
    run.add("BGP of the host returns", answered(machines, &all, "bytes from"))?;
    drop((speaker, hosts, back));
    Ok(())
}

/// Pings until each pair's answer contains a text.
fn answered(machines: Machines<'_>, pairs: &[(u8, u8)], text: &str) -> Result<Verdict, LabError> {
    let (mut left, began) = (pairs.to_vec(), Instant::now());
    poll(CONVERGE, Duration::from_millis(100), machines.0.interrupt, || {
        let mut still = Vec::new();
        for (from, to) in left.drain(..) {
            let answer = machines.ask(&host_name(from), &format!("ping -4 -n -c 1 -W 0.3 {}", behind(to)))?;
            if !answer.contains(text) {
                still.push((from, to));
            }
        }
        left = still;
        Ok(left.is_empty().then_some(()))
    })?;
    let says = format!("{} pairs after {:.1} s", pairs.len() - left.len(), began.elapsed().as_secs_f64());
    let says = if left.is_empty() { says } else { format!("{says}; not {left:?}") };
    Ok(Verdict::new(left.is_empty(), says))
}
