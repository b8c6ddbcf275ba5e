//! What all parts of the benchmark share: the table of routes, its files, and our routers over it.

use super::ipsec;
use super::packets::{Lengths, RouterPackets};
use super::rig::{Contender, GraphForwarder, Measured, RouterRing, failed, ring_devices};
use super::table::{DESTINATIONS, GATEWAYS, PORTS, RouteTable, Routed, gateway_mac, mac};
use crate::bench_run::BenchRun;
use crate::benches::lpm::routes;
use crate::error::BenchError;
use crate::gateway::packet_ring::{ROTATION, Ring};
use crate::gateway::packet_slab::{NoBuffers, Slab, SlabPacket};
use scalebricks_apps::router::mix::Mix;
use scalebricks_apps::router::server::{Form, Interface, IpRouter, ServerError, forward};
use scalebricks_io::{CaptureReader, PacketBuf};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The work of minimal forwarding and of IP routing.
pub(super) const FORWARD: &str = "forward";
pub(super) const ROUTE: &str = "route";
pub(super) const ROUTE6: &str = "route, IPv6";

/// All of it.
pub(super) const WORKS: [&str; 3] = [FORWARD, ROUTE, ROUTE6];

/// Our forms: name, and how packets pass.
pub(super) const FORMS: [(&str, Form); 2] = [("Click", Form::Click), ("fused", Form::Fused)];

/// Rate of the line whose mix is taken, and its load, bytes per second.
const LINE: [u64; 2] = [1_250_000_000, 625_000_000];

/// Prefixes of a small table.
const SMALL: usize = 4096;

/// Shortest and longest frame.
const FRAMES: std::ops::RangeInclusive<usize> = 60..=1_514;

/// Table and files.
pub(super) struct Bed {
    pub(super) table: RouteTable<Ipv4Addr>,
    table6: RouteTable<Ipv6Addr>,
    folder: TempDir,
    pub(super) keys: PathBuf,
    /// Frames of a backbone.
    pub(super) mix: Lengths,
}

impl Bed {
    /// A table of the requested routes, or a generated one.
    ///
    /// # Errors
    /// [`BenchError`] for files that cannot be read or written.
    pub(super) fn new(bench: &BenchRun<'_>) -> Result<Self, BenchError> {
        let (v4, v6) = routes::read(&bench.options.routes)?;
        let size = usize::from(!bench.options.quick);
        let destinations = bench.options.pick(ROTATION, DESTINATIONS);
        let table = RouteTable::new(v4, Ipv4Addr::PREFIXES[size], destinations)?;
        Self::with(bench, table, RouteTable::new(v6, Ipv6Addr::PREFIXES[size], destinations)?)
    }

    /// Small tables that are soon made.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn small(bench: &BenchRun<'_>) -> Result<Self, BenchError> {
        let table = RouteTable::new(Vec::new(), SMALL, ROTATION)?;
        Self::with(bench, table, RouteTable::new(Vec::new(), SMALL, ROTATION)?)
    }

    fn with(
        bench: &BenchRun<'_>,
        table: RouteTable<Ipv4Addr>,
        table6: RouteTable<Ipv6Addr>,
    ) -> Result<Self, BenchError> {
        let folder = tempfile::tempdir().map_err(|error| failed("router", &error))?;
        table.write(&folder.path().join("routes"))?;
        table6.write(&folder.path().join("routes6"))?;
        let keys = ipsec::write_keys(folder.path())?;
        Ok(Self { table, table6, keys, mix: mix(bench)?, folder })
    }

    /// Number of routes.
    pub(super) fn routes(&self) -> u64 {
        self.table.routes.len() as u64
    }

    /// The configuration of the IP router.
    ///
    /// # Errors
    /// [`BenchError::Check`].
    pub(super) fn router(&self, form: Form) -> Result<String, BenchError> {
        let interface = |port: usize| {
            let (address, address6) = (Ipv4Addr::gateway(port, 253), Ipv6Addr::gateway(port, 253));
            format!("eth{port}={address}/24,{},{address6}/64", mac(port)).parse()
        };
        let ports: Result<Vec<Interface>, ServerError> = (1..=PORTS).map(interface).collect();
        let file = |name: &str| Some(self.folder.path().join(name).display().to_string());
        let (routes, routes6) = (file("routes"), file("routes6"));
        let router = |ports| IpRouter { ports, routes, routes6, mtu: 1_500 }.configuration(form);
        ports.and_then(router).map_err(|error| failed(ROUTE, &error))
    }

    /// Our IP router in this form over these devices.
    ///
    /// # Errors
    /// [`BenchError::Check`].
    pub(super) fn route_graph<P: PacketBuf + 'static>(
        &self,
        form: Form,
        devices: scalebricks_apps::click::devices::Devices<P>,
    ) -> Result<GraphForwarder<P>, BenchError> {
        let mut neighbours = Vec::new();
        for (port, number) in (1..=PORTS).flat_map(|port| (0..GATEWAYS).map(move |number| (port, number))) {
            let mac = gateway_mac(port, number);
            for (element, ip) in [
                ("arp", Ipv4Addr::gateway(port, number).to_string()),
                ("nd", Ipv6Addr::gateway(port, number).to_string()),
            ] {
                neighbours.push((format!("{element}{port}"), "insert", format!("{ip} {mac}")));
            }
        }
        let graph =
            GraphForwarder::new(ROUTE, &self.router(form)?, devices, &neighbours, Box::new(NoBuffers))?;
        Ok(if form == Form::Fused { graph.that_counts("forwarded") } else { graph })
    }

    /// Our forwarding and routing in both forms.
    ///
    /// # Errors
    /// [`BenchError::Check`].
    pub(super) fn ours<P: PacketBuf + 'static>(
        &self,
        ring: &RouterRing<P>,
        lengths: &Lengths,
        per_call: usize,
    ) -> Result<Vec<Contender<P>>, BenchError> {
        let names = FORMS.into_iter().flat_map(|form| WORKS.map(|work| (work, form)));
        names.map(|(work, form)| self.contender(ring, lengths, per_call, work, form)).collect()
    }

    /// One of our routers, between the ports of a ring.
    ///
    /// # Errors
    /// [`BenchError::Check`].
    pub(super) fn contender<P: PacketBuf + 'static>(
        &self,
        ring: &RouterRing<P>,
        lengths: &Lengths,
        per_call: usize,
        work: &'static str,
        (by, form): (&'static str, Form),
    ) -> Result<Contender<P>, BenchError> {
        let devices = ring_devices(ring, per_call);
        let (graph, kind) = if work == FORWARD {
            let names: Vec<String> = (1..=PORTS).map(|port| format!("eth{port}")).collect();
            let text = forward(&names, form).map_err(|error| failed(FORWARD, &error))?;
            let graph = GraphForwarder::new(FORWARD, &text, devices, &[], Box::new(NoBuffers))?;
            (graph, RouterPackets::untouched(&self.table, lengths))
        } else {
            let kind = if work == ROUTE6 {
                RouterPackets::routed6(&self.table6, lengths)
            } else {
                RouterPackets::routed(&self.table, lengths)
            };
            (self.route_graph(form, devices)?, kind)
        };
        Ok(Contender::new([work, by], graph, &Arc::new(kind), ring).per_call(per_call))
    }

    /// A ring of packets of these lengths in plain memory.
    pub(super) fn ring(&self, lengths: &Lengths) -> RouterRing<SlabPacket> {
        let kind = Arc::new(RouterPackets::untouched(&self.table, lengths));
        Ring::new(Slab::new(ROTATION).packets, kind)
    }

    /// Tunnels of all suites.
    ///
    /// # Errors
    /// [`BenchError::Check`].
    pub(super) fn tunnels(&self, lengths: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
        let rings = [self.ring(lengths), self.ring(lengths)];
        let mut all: Vec<Box<dyn Measured>> = Vec::new();
        for suite in ipsec::SUITES {
            let packets = |front: Option<usize>| {
                front.map_or_else(
                    || RouterPackets::restored(&self.table, lengths),
                    |front| RouterPackets::encrypted(&self.table, lengths, front),
                )
            };
            let two = ipsec::contenders(&self.keys, suite, "Click", [&rings[0], &rings[1]], packets)?;
            all.extend(two.map(|contender| Box::new(contender) as Box<dyn Measured>));
        }
        Ok(all)
    }
}

/// The lengths of frames with FCS on a backbone: those of the capture, or of a synthetic mix.
fn mix(bench: &BenchRun<'_>) -> Result<Lengths, BenchError> {
    let bounded = |bytes: usize| (bytes.clamp(*FRAMES.start(), *FRAMES.end()) + 4) as u16;
    let Some(path) = &bench.options.capture else {
        let frames = Mix::new(LINE[0], LINE[1], 1).take(ROTATION).map(|packet| bounded(packet.bytes));
        return Ok(Lengths::mix("backbone mix", frames.collect()));
    };
    let name = path.display().to_string();
    let reader = CaptureReader::open(path).map_err(|error| BenchError::of(&name, error))?;
    let frames: Vec<u16> =
        reader.flatten().take(ROTATION).map(|frame| bounded(frame.original_len as usize)).collect();
    if frames.is_empty() {
        return Err(BenchError::Usage(format!("--capture: {name} has no frames")));
    }
    Ok(Lengths::mix("captured mix", frames))
}
