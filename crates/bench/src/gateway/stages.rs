//! Nanoseconds per packet by role and tables.
//!
//! In each round the bare loops of a role run first, then the nodes. A node's time minus that of generator
//! and sink in the same round is `packet_time`; minus that of plain forwarding it is `work_time`. If nothing
//! would remain, the run was disturbed and is rejected, never counted as zero.

use super::node_rig::{BareLoop, NodeRig, Role, bare_loop};
use super::packet_ring::Ring;
use super::tables::Tables;
use super::traffic::{Arrival, Direction, FlowSet, Traffic};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::Metric;
use crate::{rounds, timing};
use scalebricks_io::PacketBuf;
use scalebricks_report::stats::Summary;
use scalebricks_types::ClusterSize;
use std::sync::Arc;

/// Parse, look up the GPT, rewrite the addresses: packets from the Internet for other nodes.
pub const INGRESS: Role =
    Role { name: "ingress", way: Direction::Downstream, whose: FlowSet::Foreign, arrival: Arrival::Outside };
/// Parse, look up the FIB, write the tunnel header, count: packets from the fabric.
pub const HANDLING: Role =
    Role { name: "handling", way: Direction::Downstream, whose: FlowSet::Own, arrival: Arrival::Fabric };
/// The same for packets from a tunnel.
pub const HANDLING_UP: Role = Role {
    name: "handling, upstream",
    way: Direction::Upstream,
    whose: FlowSet::Own,
    arrival: Arrival::Fabric,
};
/// Both, for packets that enter where their flow is handled.
pub const BOTH: Role = Role {
    name: "ingress and handling",
    way: Direction::Downstream,
    whose: FlowSet::Own,
    arrival: Arrival::Outside,
};
/// The same for packets from a tunnel.
pub const BOTH_UP: Role = Role {
    name: "ingress and handling, upstream",
    way: Direction::Upstream,
    whose: FlowSet::Own,
    arrival: Arrival::Outside,
};
/// The paper's external core: packets of all flows, of which it handles its own.
pub const EXTERNAL: Role = Role {
    name: "external core",
    way: Direction::Downstream,
    whose: FlowSet::All,
    arrival: Arrival::Outside,
};

/// All roles.
pub const ROLES: [Role; 6] = [INGRESS, HANDLING, HANDLING_UP, BOTH, BOTH_UP, EXTERNAL];

/// Roles that are measured alone; the external core is measured together with the internal one.
pub const MEASURED: [Role; 5] = [INGRESS, HANDLING, HANDLING_UP, BOTH, BOTH_UP];

/// The times of one role with one set of tables, by run, in nanoseconds per packet.
#[derive(Debug, Clone)]
struct Times {
    tables: Tables,
    role: Role,
    /// Without generator and sink.
    packet: Vec<f64>,
    /// Without plain forwarding.
    work: Vec<f64>,
}

/// A role with its traffic and the times of the bare loops.
struct Part {
    role: Role,
    traffic: Arc<Traffic>,
    ports: Vec<f64>,
    forwarding: Vec<f64>,
}

/// What is measured together.
pub struct Plan<'a, P> {
    /// Flows of the cluster.
    pub flows: u64,
    /// Cluster size.
    pub size: ClusterSize,
    /// The rotating packets.
    pub ring: &'a Ring<P>,
    /// All sets of tables.
    pub tables: &'a [Tables],
    /// All roles.
    pub roles: &'a [Role],
    /// Suffix of the variants.
    pub suffix: &'a str,
}

/// Maximum prepared packets, each of 16 or 32 bytes.
const PREPARED: u64 = 4 << 20;

/// The prepared packets for this many flows.
pub fn traffic(flows: u64, role: Role) -> Arc<Traffic> {
    let packets = flows.clamp(1 << 16, PREPARED) as usize;
    Arc::new(Traffic::new(flows, packets, role.way, role.whose, role.arrival))
}

/// One run of a node: its time minus the ports', and minus plain forwarding. If a run is rejected and
/// repeated, the bare loops are measured again.
fn run<P: PacketBuf + 'static>(
    bench: &BenchRun<'_>,
    plan: &Plan<'_, P>,
    rig: &mut NodeRig<P>,
    part: &Part,
    alone: (f64, f64),
    packets: u64,
) -> Result<(f64, f64), BenchError> {
    let mut alone = Some(alone);
    let what = format!("{}, {}", rig.name(), part.role.name);
    rounds::retry_rejected(bench, || {
        let (ports, forwarding) = match alone.take() {
            Some(alone) => alone,
            None => (
                bare_loop(plan.ring, &part.traffic, BareLoop::Ports, packets)?,
                bare_loop(plan.ring, &part.traffic, BareLoop::Forwarding, packets)?,
            ),
        };
        let whole = rig.measure(packets)?;
        Ok((timing::net(&what, whole, ports)?, timing::net(&what, whole, forwarding)?))
    })
}

/// Interleaves all roles with all tables, and adds a row for each time.
///
/// # Errors
/// [`BenchError`], also for a lost or changed packet.
pub fn measure<P: PacketBuf + 'static>(
    bench: &mut BenchRun<'_>,
    plan: &Plan<'_, P>,
) -> Result<(), BenchError> {
    let packets = bench.options.pick(1 << 16, 1 << 20);
    let mut parts: Vec<Part> = Vec::new();
    let (mut rigs, mut found) = (Vec::new(), Vec::new());
    for &role in plan.roles {
        let traffic = traffic(plan.flows, role);
        for tables in plan.tables {
            let mut rig = NodeRig::new(plan.size, tables, plan.ring, &traffic);
            rig.judge()?;
            rigs.push((parts.len(), rig));
            found.push(Times { tables: tables.clone(), role, packet: Vec::new(), work: Vec::new() });
        }
        parts.push(Part { role, traffic, ports: Vec::new(), forwarding: Vec::new() });
    }
    let runs = bench.options.runs();
    let bar = bench.progress(runs * rigs.len());
    for run in 0..runs {
        for part in &mut parts {
            part.ports.push(bare_loop(plan.ring, &part.traffic, BareLoop::Ports, packets)?);
            part.forwarding.push(bare_loop(plan.ring, &part.traffic, BareLoop::Forwarding, packets)?);
        }
        for ((part, rig), times) in rigs.iter_mut().zip(&mut found) {
            bench.check()?;
            let part = &parts[*part];
            let alone = (part.ports[run], part.forwarding[run]);
            let (packet, work) = self::run(bench, plan, rig, part, alone, packets)?;
            times.packet.push(packet);
            times.work.push(work);
            bar.add(1);
        }
    }
    bar.finish();
    let case = |bench: &BenchRun<'_>, structure: &str, role: Role| {
        bench.case(structure, plan.flows).variant(format!("{}{}", role.name, plan.suffix)).threads(1)
    };
    for part in &parts {
        for (name, times) in [("generator and sink", &part.ports), ("plain forwarding", &part.forwarding)] {
            let case = case(bench, name, part.role);
            bench.add(case, Metric::PacketTime, Summary::of(times));
        }
    }
    for times in &found {
        let name = times.tables.name();
        let case = times.tables.describe(case(bench, &name, times.role));
        bench.add(case.clone(), Metric::PacketTime, Summary::of(&times.packet));
        bench.add(case.clone(), Metric::WorkTime, Summary::of(&times.work));
        if [BOTH, BOTH_UP].contains(&times.role) {
            let rates: Vec<f64> = times.packet.iter().map(|nanoseconds| 1e9 / nanoseconds).collect();
            bench.add(case, Metric::PacketRate, Summary::of(&rates));
        }
    }
    Ok(())
}
