//! The router of one server on one core, with packets from memory: minimal forwarding and IP routing, each as a Click
//! configuration and in the form that handles bursts.
//!
//! The ports are generator and sink, inline ([`packet_ring`](crate::gateway::packet_ring)); their cost is measured in the
//! same round and subtracted. Packets have 64 bytes with the FCS, arrive at port 1, and go to 65,536 addresses in
//! rotation, in random prefixes of a full table, so that they leave by the other three ports.

mod packets;

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::gateway::packet_ring::{ROTATION, Ring};
use crate::gateway::packet_slab::{NoBuffers, Slab, SlabPacket};
use crate::row::Metric;
use crate::{rounds, timing};
use packets::{GATEWAYS, PORTS, RouterPackets, gateway, mac};
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::server::{Form, IpRouter, ServerError, forward};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{Burst, RxPort, TxPort};
use scalebricks_report::stats::Summary;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Prefixes of a generated table, as many as IPv4 had in May 2014.
const PREFIXES: usize = 512_621;

type RouterRing = Ring<SlabPacket, Arc<RouterPackets>>;

/// A configuration between the ports.
struct RouterRig {
    name: &'static str,
    form: &'static str,
    worker: Worker<SlabPacket>,
    ledger: Ledger,
    packets: Arc<RouterPackets>,
    /// Nanoseconds per packet, by run.
    times: Vec<f64>,
}

fn failed(name: &str, error: &impl Display) -> BenchError {
    BenchError::check(name, error.to_string())
}

impl RouterRig {
    fn new(
        name: &'static str,
        form: Form,
        text: Result<String, ServerError>,
        ring: &RouterRing,
        packets: &Arc<RouterPackets>,
    ) -> Result<Self, BenchError> {
        let registry = scalebricks_elements::registry::<SlabPacket>();
        let text = text.map_err(|error| failed(name, &error))?;
        let router =
            Router::read(name, text.as_bytes(), &[], &registry).map_err(|errors| failed(name, &errors))?;
        let mut ledger = Ledger::new();
        let mut graph = router.graph(&registry, &mut ledger).map_err(|errors| failed(name, &errors))?;
        let mut devices = Devices::new(Clock::Wall);
        for port in 1..=PORTS {
            let device = format!("eth{port}");
            devices.receive(Some(&device), ReceiveBinding::Port(Box::new(ring.port(port, port == 1))));
            devices.send(&device, SendBinding::Port(Box::new(ring.port(port, false))));
        }
        router.open(&mut graph, &mut devices).map_err(|errors| failed(name, &errors))?;
        if name == "route" {
            for port in 1..=PORTS {
                for number in 0..GATEWAYS {
                    let (ip, mac) = gateway(port, number);
                    graph
                        .write(&format!("arp{port}"), "insert", &format!("{ip} {mac}"))
                        .map_err(|error| failed(name, &error))?;
                }
            }
        }
        let mut worker = Worker::new(graph, Box::new(NoBuffers), ());
        worker.turn(NOW);
        let form = if form == Form::Click { "Click" } else { "fused" };
        Ok(Self { name, form, worker, ledger, packets: Arc::clone(packets), times: Vec::new() })
    }

    /// Runs until about this many packets were taken.
    fn forward(&mut self, ring: &RouterRing, packets: usize) {
        ring.limit(packets);
        while ring.left() > 0 {
            self.worker.turn(NOW);
        }
        // Packets that wait in queues or for a device.
        while ring.len() < ROTATION && self.worker.turn(NOW) > 0 {}
    }

    /// Sends all packets through and checks each.
    fn judge(&mut self, ring: &RouterRing) -> Result<(), BenchError> {
        let what = format!("{}, {}", self.name, self.form);
        ring.send_of(Arc::clone(&self.packets));
        ring.check(|_| ());
        let all = 2 * self.packets.len();
        self.forward(ring, all);
        let checked = ring.checked();
        if let Some(fault) = checked.fault {
            return Err(BenchError::check(&what, fault));
        }
        if checked.packets != all || ring.len() != ROTATION {
            return Err(BenchError::check(&what, format!("{} of {all} packets left", checked.packets)));
        }
        let slow: u64 = self.ledger.snapshot().iter().filter_map(|one| one.get("forwarded")).sum();
        if (self.name, self.form) == ("route", "fused") && slow != all as u64 {
            return Err(BenchError::check(&what, format!("{slow} of {all} packets passed the loop")));
        }
        Ok(())
    }

    /// Nanoseconds per packet, with generator and sink.
    fn measure(&mut self, ring: &RouterRing, packets: usize) -> Result<f64, BenchError> {
        ring.send_of(Arc::clone(&self.packets));
        self.forward(ring, ROTATION);
        let ((), seconds) = timing::pinned(|| self.forward(ring, packets))?;
        if ring.len() != ROTATION {
            let lost = ROTATION - ring.len();
            return Err(BenchError::check(self.name, format!("{lost} packets were lost")));
        }
        Ok(seconds * 1e9 / packets as f64)
    }
}

/// The worker's time: it stands still.
const NOW: Duration = Duration::from_secs(1);

/// Nanoseconds per packet of generator and sink alone.
fn ports_alone(ring: &RouterRing, kind: &Arc<RouterPackets>, packets: usize) -> Result<f64, BenchError> {
    ring.send_of(Arc::clone(kind));
    ring.limit(usize::MAX);
    let (mut rx, mut tx) = (ring.port(1, true), ring.port(2, false));
    let mut pass = |packets: usize| {
        let (mut passed, mut burst) = (0, Burst::new());
        while passed < packets {
            passed += rx.rx_burst(&mut burst);
            tx.tx_burst(&mut burst);
        }
    };
    pass(ROTATION);
    let ((), seconds) = timing::pinned(|| pass(packets))?;
    Ok(seconds * 1e9 / packets as f64)
}

/// All configurations, over a table of routes.
fn rigs(
    folder: &Path,
    ring: &RouterRing,
    packets: &Arc<RouterPackets>,
) -> Result<Vec<RouterRig>, BenchError> {
    let devices: Vec<String> = (1..=PORTS).map(|port| format!("eth{port}")).collect();
    let interface = |port: usize| format!("eth{port}=10.255.{port}.254/24,{}", mac(port)).parse();
    let router = IpRouter {
        ports: (1..=PORTS)
            .map(interface)
            .collect::<Result<_, _>>()
            .map_err(|error| failed("route", &error))?,
        routes: Some(folder.join("routes").display().to_string()),
        routes6: None,
        mtu: 1_500,
    };
    let untouched = Arc::new(packets.untouched());
    let mut rigs = Vec::new();
    for form in [Form::Click, Form::Fused] {
        rigs.push(RouterRig::new("forward", form, forward(&devices, form), ring, &untouched)?);
        rigs.push(RouterRig::new("route", form, router.configuration(form), ring, packets)?);
    }
    Ok(rigs)
}

/// Measures all forms, interleaved.
///
/// # Errors
/// [`BenchError`], also for a packet that is lost or wrong.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let busy = bench.busy("making tables");
    let folder = tempfile::tempdir().map_err(|error| failed("router", &error))?;
    let (packets, routes) = packets::make(&bench.options.routes, PREFIXES, &folder.path().join("routes"))?;
    let packets = Arc::new(packets);
    let ring = Ring::new(Slab::new(ROTATION).packets, Arc::clone(&packets));
    // The first turn of a configuration copies its tables, and takes no packets.
    ring.limit(0);
    let mut rigs = rigs(folder.path(), &ring, &packets)?;
    for rig in &mut rigs {
        rig.judge(&ring)?;
    }
    drop(busy);
    let (count, runs) = (bench.options.pick(1 << 18, 1 << 21), bench.options.runs());
    let bar = bench.progress(runs * rigs.len());
    let mut alone = Vec::new();
    for _ in 0..runs {
        alone.push(ports_alone(&ring, &packets, count)?);
        for rig in &mut rigs {
            let what = format!("{}, {}", rig.name, rig.form);
            let time = rounds::retry_rejected(bench, || {
                let ports = ports_alone(&ring, &packets, count)?;
                timing::net(&what, rig.measure(&ring, count)?, ports)
            })?;
            rig.times.push(time);
            bar.add(1);
        }
    }
    bar.finish();
    let case = |bench: &BenchRun<'_>, name: &str| bench.case(name, routes as u64).threads(1);
    let ports = case(bench, "generator and sink").variant("64 bytes".to_owned());
    bench.add(ports, Metric::PacketTime, Summary::of(&alone));
    for rig in &rigs {
        let case = case(bench, rig.name).variant(format!("{}, 64 bytes", rig.form));
        let rates: Vec<f64> = rig.times.iter().map(|nanoseconds| 1e9 / nanoseconds).collect();
        bench.add(case.clone(), Metric::PacketTime, Summary::of(&rig.times));
        bench.add(case, Metric::PacketRate, Summary::of(&rates));
    }
    Ok(())
}
