//! A feeder whose table is known as a whole.

use super::{FeederLog, RETRY, SharedStatus, ip_prefix};
use crate::error::ProcessError;
use crate::router::node::config::Port;
use crate::router::node::routes::SharedRoutes;
use crate::router::node::routes::connected::{Connected, Wanted};
use scalebricks_apps::router::feed::statics;
use scalebricks_control::routes::{Exit, FeederId, IpPrefix, Path, Paths, difference};
use scalebricks_tables::lpm::Prefix;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The preference of the networks at ports: no other route is better.
const CONNECTED: u32 = 0;

/// What a feeder wants to have in the log, given the networks at ports.
pub(crate) type Source = Arc<dyn Fn(&Connected) -> Wanted + Send + Sync>;

/// Keeps the log at what a source wants; never returns. It logs a difference whenever the source or the networks at ports
/// change.
pub(crate) async fn feed(
    feeder: FeederId,
    routes: SharedRoutes,
    log: FeederLog,
    mut source: watch::Receiver<Source>,
    status: SharedStatus,
) {
    let mut connected = routes.connected();
    loop {
        log.caught_up().await;
        let wanted = (source.borrow_and_update().clone())(&connected.borrow_and_update().clone());
        let records = difference(&routes.lock().rib, feeder, &wanted.paths);
        note(&status, &wanted);
        let count = records.len() as u64;
        match log.append(records).await {
            Ok(()) => {
                let mut status = status.lock();
                status.logged += count;
                (status.state, status.fault) = ("complete".to_owned(), None);
            }
            Err(error) => {
                tracing::error!(feeder = status.lock().name, %error, "cannot log routes; trying again");
                status.lock().fault = Some(error.to_string());
                tokio::time::sleep(RETRY).await;
                continue;
            }
        }
        let is_over = tokio::select! {
            changed = source.changed() => changed.is_err(),
            changed = connected.changed() => changed.is_err(),
        };
        if is_over {
            return std::future::pending().await; // the node stops
        }
    }
}

/// Shows what a feeder wants, and warns of what it cannot have.
pub(super) fn note(status: &SharedStatus, wanted: &Wanted) {
    let mut status = status.lock();
    status.routes = wanted.paths.len() as u64;
    if wanted.unresolved.0 > 0 && status.unresolved != wanted.unresolved.0 {
        let first = wanted.unresolved.1.map(tracing::field::display);
        let (feeder, count) = (status.name, wanted.unresolved.0);
        tracing::warn!(
            feeder,
            count,
            first,
            "next hops are in no network of a port; their routes wait for one"
        );
    }
    (status.unresolved, status.surplus) = (wanted.unresolved.0, wanted.surplus);
}

/// The networks at the ports of a node.
pub(crate) fn connected(node: NodeId, ports: &[Port]) -> Source {
    let mut exits: BTreeMap<IpPrefix, Vec<Path>> = BTreeMap::new();
    for (port, number) in ports.iter().zip(0..) {
        for (address, length) in &port.addresses {
            if let Some(prefix) = network(*address, *length) {
                let exit = Exit { node, port: number, next_hop: None };
                exits.entry(prefix).or_default().push(Path { preference: CONNECTED, exit });
            }
        }
    }
    let paths =
        exits.into_iter().filter_map(|(prefix, paths)| Some((prefix, Paths::new(paths).ok()?))).collect();
    let wanted = Wanted { paths, ..Wanted::default() };
    Arc::new(move |_| wanted.clone())
}

/// The network of an address.
fn network(address: IpAddr, length: u8) -> Option<IpPrefix> {
    match address {
        IpAddr::V4(address) => Prefix::of(address, length).ok().map(IpPrefix::V4),
        IpAddr::V6(address) => Prefix::of(address, length).ok().map(IpPrefix::V6),
    }
}

/// The routes of a file, and the number of their prefixes.
///
/// # Errors
/// [`ProcessError::File`], [`ProcessError::Routes`].
pub(crate) fn statics(path: &std::path::Path) -> Result<(Source, usize), ProcessError> {
    let file = File::open(path).map_err(ProcessError::file(path))?;
    let mut routes: BTreeMap<IpPrefix, Vec<(IpAddr, u32)>> = BTreeMap::new();
    let read = statics::read(file, |route| {
        routes.entry(ip_prefix(route.prefix)).or_default().push((route.next_hop, route.preference));
    });
    read.map_err(|error| ProcessError::Routes { path: path.to_owned(), error })?;
    let prefixes = routes.len();
    let source: Source = Arc::new(move |connected| {
        let mut wanted = Wanted::default();
        for (prefix, next_hops) in &routes {
            wanted.add(connected, *prefix, next_hops.iter().copied());
        }
        wanted
    });
    Ok((source, prefixes))
}
