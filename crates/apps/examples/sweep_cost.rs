//! Measures one sweep of a node's FIB: the digests of all its entries, by partition.
//!
//! `cargo run --release -p scalebricks-apps --example sweep_cost`

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it prints its result")]

use scalebricks_apps::gateway::{FlowTables, PinnedState};
use scalebricks_elements::gateway::BaseStationId;
use scalebricks_tables::FibError;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, Teid};
use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

/// Flows, of two keys each. One in three has an IPv6 five-tuple.
const FLOWS: u32 = 500_000;
const SWEEPS: usize = 9;
const PARTITIONS: u32 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let params = Params::for_keys(Structure::SetSep, 1_000, 4, PartitionCount::new(PARTITIONS)?)?;
    let hasher = KeyHasher::new(HashSeed::from_u64(7));
    let mut tables = FlowTables::for_log(NodeId::new(1), params, hasher, 1, 64);
    for number in 1..=FLOWS {
        pin(&mut tables, number)?;
    }
    let mut times_ms: Vec<f64> = (0..SWEEPS)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(tables.fib_digests());
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times_ms.sort_by(f64::total_cmp);
    println!(
        "RESULT keys={} sweep_ms_p50={:.1} min={:.1} max={:.1}",
        tables.sizes().keys_here,
        times_ms[SWEEPS / 2],
        times_ms[0],
        times_ms[SWEEPS - 1]
    );
    Ok(())
}

/// Puts both keys of a flow into the FIB.
fn pin(tables: &mut FlowTables, number: u32) -> Result<(), FibError> {
    let teid = Teid::new(number);
    let flow = PinnedState {
        downlink_teid: teid,
        uplink_teid: teid,
        base_station: BaseStationId(number as u16),
        qfi: None,
    };
    let downstream = if number.is_multiple_of(3) {
        let user = Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number));
        FlowKey::five_tuple_v6(user, Ipv6Addr::LOCALHOST, 17, 53, 4000)
    } else {
        FlowKey::five_tuple_v4(Ipv4Addr::from(number), Ipv4Addr::new(198, 51, 100, 7), 17, 53, 4000)
    };
    for key in [downstream, FlowKey::teid(teid)] {
        tables.set_logged(&key, flow.encode())?;
    }
    Ok(())
}
