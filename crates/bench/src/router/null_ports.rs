//! Minimal forwarding between two of DPDK's devices `net_null`, which give out empty packets and free those that they get:
//! DPDK's testpmd, and our graph in the same round.
//!
//! Each side forwards both ways on one core, with packets from a pool, 512 of them in the thread's cache. The time of the
//! devices is part of the figures, and is the same for both. Neither side reads a packet's bytes. Testpmd sends each burst of
//! 32 before it takes the next, so it uses the same 32 packets again and again; our graph takes up to 128 from each device.

use super::bed::{Bed, FORMS, FORWARD};
use super::rig::{Forwarder, GraphForwarder, failed};
use super::{NULL_PORTS, TESTPMD};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::gateway::dpdk;
use crate::gateway::packet_slab::NoBuffers;
use crate::row::Metric;
use crate::{pin, timing};
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::server::{Form, forward};
use scalebricks_dpdk::{Mbuf, PortConfig, Started};
use scalebricks_graph::Clock;
use scalebricks_report::stats::Summary;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The program, of the package dpdk-dev.
const PROGRAM: &str = "dpdk-testpmd";
/// The names of its forwarding thread, by version of DPDK.
const THREADS: [&str; 2] = ["lcore-worker-1", "rte-worker-1"];
/// Time until it forwards at the most, and the time between two looks.
const START: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(50);

/// Our graph between two devices.
struct Ours {
    graph: GraphForwarder<Mbuf>,
}

impl Ours {
    fn new(form: Form, number: usize) -> Result<Self, BenchError> {
        let names = ["eth1".to_owned(), "eth2".to_owned()];
        let mut devices = Devices::new(Clock::Wall);
        for (side, name) in names.iter().enumerate() {
            let device = format!("net_null{}", 2 * number + side);
            let Started { rx, tx, .. } = dpdk::port(&device, &PortConfig::default())?;
            for rx in rx {
                devices.receive(Some(name), ReceiveBinding::Port(Box::new(rx)));
            }
            for tx in tx {
                devices.send(name, SendBinding::Port(Box::new(tx)));
            }
        }
        let text = forward(&names, form).map_err(|error| failed(FORWARD, &error))?;
        Ok(Self { graph: GraphForwarder::new(FORWARD, &text, devices, &[], Box::new(NoBuffers))? })
    }

    /// Packets per second in this time.
    fn rate(&mut self, time: Duration) -> Result<f64, BenchError> {
        let (packets, seconds) = timing::pinned(|| {
            let _thread = dpdk::register();
            let (start, mut packets) = (timing::Clock::Wall.now(), 0);
            while timing::Clock::Wall.now().saturating_sub(start) < time {
                for _ in 0..1024 {
                    self.graph.turn();
                    packets += self.graph.worker.brought();
                }
            }
            packets
        })?;
        timing::rate(FORWARD, packets, seconds)
    }
}

/// A running testpmd, ended when it is dropped.
struct Testpmd(Child);

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Testpmd {
    fn start() -> Result<Self, BenchError> {
        let core = pin::core(0).unwrap_or(0);
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--lcores=0@0,1@{core}")).args([
            "--no-huge",
            "-m",
            "256",
            "--no-pci",
            "--no-shconf",
            "--no-telemetry",
            "--vdev",
            "net_null0",
            "--vdev",
            "net_null1",
            "--",
            "--forward-mode=io",
            "--nb-cores=1",
            "--auto-start",
            "--stats-period=1",
            "--total-num-mbufs=8192",
            // As many as ours.
            "--mbcache=512",
        ]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        child.map(Self).map_err(|error| failed(PROGRAM, &error))
    }

    /// The file with the nanoseconds that the forwarding thread ran, once it runs.
    fn time_file(&self) -> Option<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
        let is_it = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| THREADS.contains(&name.trim()))
        };
        tasks.flatten().map(|task| task.path()).find(is_it).map(|task| task.join("schedstat"))
    }

    /// Lets it forward for this time. The rate is that of its own count of packets over the processor time of its
    /// forwarding thread.
    fn rate(mut self, time: Duration) -> Result<f64, BenchError> {
        let missing = |what: &str| failed(PROGRAM, &what);
        let ran_ns = |file: Option<PathBuf>| -> Option<u64> {
            std::fs::read_to_string(file?).ok()?.split_whitespace().next()?.parse().ok()
        };
        let begin = std::time::Instant::now();
        let wanted = time.as_nanos() as u64; // seconds
        loop {
            if ran_ns(self.time_file()).is_some_and(|ran| ran > wanted) {
                break;
            }
            if begin.elapsed() > START {
                return Err(missing("its forwarding thread did not run"));
            }
            std::thread::sleep(STEP);
        }
        let pid = rustix::process::Pid::from_child(&self.0);
        let file = self.time_file();
        // It stops forwarding at the signal, and then prints its counts; what it runs in between is lost in seconds.
        let ran = ran_ns(file).ok_or_else(|| missing("its forwarding thread has ended"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::INT)
            .map_err(|error| failed(PROGRAM, &error))?;
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut output, &mut text).map_err(|error| failed(PROGRAM, &error))?;
        }
        let packets = accumulated(&text).ok_or_else(|| missing("it printed no counts"))?;
        timing::rate(TESTPMD, packets, ran as f64 / 1e9)
    }
}

/// The packets that it received, by its last lines.
fn accumulated(text: &str) -> Option<usize> {
    let (_, rest) = text.rsplit_once("Accumulated forward statistics for all ports")?;
    let (_, rest) = rest.split_once("RX-packets:")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
}

/// Measures, if testpmd is installed also this.
///
/// # Errors
/// [`BenchError`].
pub(super) fn run(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let is_there = is_installed();
    if !is_there {
        bench.console.note("router: testpmd left out, it is not installed (on Debian: apt install dpdk-dev)");
    }
    let time = Duration::from_millis(bench.options.pick(200, 500));
    let mut ours = Vec::new();
    for (number, (by, form)) in FORMS.into_iter().enumerate() {
        ours.push((by, Ours::new(form, number)?, Vec::new()));
    }
    let mut testpmd = Vec::new();
    for _ in 0..bench.options.runs() {
        bench.check()?;
        for (_, ours, rates) in &mut ours {
            rates.push(ours.rate(time)?);
        }
        if is_there {
            // It starts slowly and counts from then on; a longer run makes up for it.
            match Testpmd::start().and_then(|running| running.rate(2 * time)) {
                Ok(rate) => testpmd.push(rate),
                // On a busy machine it may not start in time; the others shall not be lost for it.
                Err(error) => bench.console.note(&format!("router: a run of testpmd left out: {error}")),
            }
        }
    }
    let mut add = |by: &'static str, rates: &[f64]| {
        let case = bench.case(FORWARD, bed.routes()).format(by).variant(NULL_PORTS.to_owned()).threads(1);
        let times: Vec<f64> = rates.iter().map(|rate| 1e9 / rate).collect();
        bench.add(case.clone(), Metric::PacketRate, Summary::of(rates));
        bench.add(case, Metric::PacketTime, Summary::of(&times));
    };
    for (by, _, rates) in &ours {
        add(by, rates);
    }
    if !testpmd.is_empty() {
        add(TESTPMD, &testpmd);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_counts_are_read() {
        let text = "RX-packets: 1\n  +++ Accumulated forward statistics for all ports+++\n  RX-packets: 4241984        RX-dropped: 0\n";
        assert_eq!((accumulated(text), accumulated("RX-packets: 1")), (Some(4_241_984), None));
    }
}
