//! Sends packets through one node in one role, for profilers and to count instructions
//! (`scripts/gateway-instructions`).
//!
//! `gateway_role full|scalebricks|bare ROLE FLOWS PACKETS`. Roles are numbered as in `stages::ROLES`; `bare`
//! is plain forwarding. With `COUNT` in the environment the packets are sent once and nothing is timed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use scalebricks_allocator::HugePages;
use scalebricks_bench::gateway::flows::{HERE, NODES};
use scalebricks_bench::gateway::node_rig::{BareLoop, NodeRig, bare_loop};
use scalebricks_bench::gateway::packet_ring::{ROTATION, Ring};
use scalebricks_bench::gateway::packet_slab::Slab;
use scalebricks_bench::gateway::stages::{ROLES, traffic};
use scalebricks_bench::gateway::tables::{ExactTable, Placement, TableFactory};
use scalebricks_types::ClusterSize;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() {
    HugePages::turn_on();
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spread, role, flows, packets] = &arguments[..] else {
        println!("gateway_role full|scalebricks|bare ROLE FLOWS PACKETS");
        return;
    };
    let (role, flows, packets) =
        (ROLES[role.parse::<usize>().unwrap()], flows.parse().unwrap(), packets.parse().unwrap());
    let size = ClusterSize::new(NODES).unwrap();
    let traffic = traffic(flows, role);
    let ring = Ring::new(Slab::new(ROTATION).packets, Arc::clone(&traffic));
    let count = std::env::var_os("COUNT").is_some();
    let forwarding =
        if count { 0.0 } else { bare_loop(&ring, &traffic, BareLoop::Forwarding, packets).unwrap() };
    if spread == "bare" {
        println!("plain forwarding: {forwarding:.1} ns");
        return;
    }
    let spread = if spread == "full" { Placement::FullDuplication } else { Placement::ScaleBricks };
    let tables = TableFactory::new(flows, size, HERE).tables(spread, ExactTable::Cuckoo).unwrap();
    let mut rig = NodeRig::new(size, &tables, &ring, &traffic);
    if count {
        println!("{} packets", rig.forward(packets));
        return;
    }
    rig.judge().unwrap();
    let (name, mut times) =
        (rig.name().to_owned(), (0..7).map(|_| rig.measure(packets).unwrap()).collect::<Vec<f64>>());
    times.sort_by(f64::total_cmp);
    println!(
        "{name}, {}: {:.1} ns ({:.1} to {:.1}), {:.1} over plain forwarding",
        role.name,
        times[3],
        times[0],
        times[6],
        times[3] - forwarding
    );
}
