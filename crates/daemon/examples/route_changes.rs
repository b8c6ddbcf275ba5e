//! Measures how long a node of a cluster router takes to load a full table from the log, and to move or withdraw the routes of
//! a dead node, while a reader looks addresses up.
//!
//! ```text
//! cargo run --release -p scalebricks-daemon --example route_changes [TABLE]
//! ```
//!
//! TABLE has lines `PREFIX ORIGIN`, plain or gzipped; without it, 512,621 prefixes are generated. Four nodes have a port
//! and sixteen next hops each. Every prefix has one exit, chosen by its origin; every second one has an alternative at
//! another node. Each time is given twice: elapsed, and of the processor, which other processes do not lengthen.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use scalebricks_apps::router::routes::{Announcement, generate, read};
use scalebricks_control::codec::Encoded;
use scalebricks_control::routes::{
    Exit, FeederId, IpPrefix, Path, Paths, RouteBatch, RouteRecord, RouteRib, batches,
};
use scalebricks_daemon::router::node::routes::SharedRoutes;
use scalebricks_daemon::router::node::routes::tables::RouteTables;
use scalebricks_tables::lpm::{Lpm, LpmReader, Params};
use scalebricks_types::{NodeId, NodeSet};
use std::error::Error;
use std::fs::File;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NODES: u8 = 4;
const BATCH_BYTES: usize = 256 << 10;

fn nodes(of: impl IntoIterator<Item = u8>) -> NodeSet {
    of.into_iter().map(NodeId::new).collect()
}

/// The exits of a network: the first is the preferred one.
fn paths(route: &Announcement) -> Result<Paths, Box<dyn Error>> {
    let origin = route.origin.wrapping_mul(2_654_435_761);
    let exit = |node: u32| {
        let node = (node % u32::from(NODES)) as u8;
        let next_hop = Some([192, 0, node, (origin >> 8) as u8 % 16 + 1].into());
        Exit { node: NodeId::new(node), port: 0, next_hop }
    };
    let first = Path { preference: 1, exit: exit(origin >> 16) };
    let second = Path { preference: 2, exit: exit((origin >> 16) + 1) };
    let alternatives = if origin >> 31 == 0 { vec![first, second] } else { vec![first] };
    Ok(Paths::new(alternatives)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let table = match std::env::args_os().nth(1) {
        Some(path) => read(File::open(path)?)?,
        None => generate(512_621, 50_000, 1),
    };
    let mut records = Vec::with_capacity(table.len());
    for route in &table {
        records.push(RouteRecord::Announce(FeederId(256), IpPrefix::V4(route.prefix), paths(route)?));
    }
    let payloads: Vec<Vec<u8>> = batches(records, BATCH_BYTES).iter().map(Encoded::encode).collect();
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    println!("{} records in {} batches of the log, {bytes} bytes", table.len(), payloads.len());

    let (v4, v6) = (Arc::new(Lpm::new(Params::FAST)), Arc::new(Lpm::new(Params::SMALL)));
    let tables = RouteTables::new(NodeId::new(0), Arc::clone(&v4), v6, Box::new(|_, _| {}));
    let routes = SharedRoutes::new(nodes(0..NODES), tables);
    let addresses: Vec<Ipv4Addr> = table.iter().step_by(7).map(|route| route.prefix.address()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| longest_batch(&v4, &addresses, &is_over));
        let measured = measure(&routes, &payloads);
        is_over.store(true, Ordering::Relaxed);
        let (batches, longest) = reader.join().unwrap_or_default();
        println!("beside it: {batches} calls of 64 lookups, the longest took {} us", longest.as_micros());
        measured
    })
}

/// Looks addresses up until the end; the number of calls, and the longest.
fn longest_batch(
    table: &Arc<Lpm<Ipv4Addr>>,
    addresses: &[Ipv4Addr],
    is_over: &AtomicBool,
) -> (u64, Duration) {
    let mut reader = LpmReader::new(Arc::clone(table));
    let (mut calls, mut longest, mut hops) = (0, Duration::ZERO, [None; 64]);
    while !is_over.load(Ordering::Relaxed) {
        for batch in addresses.as_chunks::<64>().0 {
            let began = Instant::now();
            reader.lookup_batch(batch, &mut hops);
            longest = longest.max(began.elapsed());
            calls += 1;
        }
    }
    (calls, longest)
}

/// A point in time.
#[derive(Debug, Clone, Copy)]
struct Began {
    at: Instant,
    cpu: Duration,
}

impl Began {
    fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu() }
    }

    /// The time since then, elapsed and of the processor.
    fn since(self) -> String {
        format!(
            "{} ms ({} ms of the processor)",
            self.at.elapsed().as_millis(),
            cpu().checked_sub(self.cpu).unwrap().as_millis()
        )
    }
}

/// The processor's time of this thread (proc(5), schedstat).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}

fn measure(routes: &SharedRoutes, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let began = Began::now();
    let mut longest = Duration::ZERO;
    for payload in payloads {
        let one = cpu();
        let counts = routes.apply(&RouteBatch::decode(payload)?);
        longest = longest.max(cpu().checked_sub(one).unwrap());
        if counts.refused + counts.without_number > 0 {
            return Err("routes were refused".into());
        }
    }
    let prefixes = routes.lock().rib.len();
    println!(
        "load: {prefixes} prefixes in {}, {} ms for the longest batch",
        began.since(),
        longest.as_millis()
    );
    for (what, alive) in [("node 1 dies", nodes([0, 2, 3])), ("node 1 is back", nodes(0..NODES))] {
        let began = Began::now();
        let changed = routes.set_alive(alive);
        println!("{what}: {changed} routes changed in {}", began.since());
        let state = routes.lock();
        if state.rib.routes().count() != state.tables.v4().len() {
            return Err("the table is not that of the RIB".into());
        }
    }
    let began = Began::now();
    let bytes = routes.lock().rib.encode();
    println!("snapshot: {} bytes, encoded in {}", bytes.len(), began.since());
    let began = Began::now();
    let restored = RouteRib::decode(&bytes, nodes(0..NODES))?;
    println!("snapshot: decoded in {}", began.since());
    let began = Began::now();
    let changes = routes.lock().rib.changes_to(&restored);
    println!("difference of two tables: {} changes, found in {}", changes.len(), began.since());
    Ok(())
}
