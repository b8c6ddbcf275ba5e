//! The counters of nodes, kernels and the base station.

use super::LabError;
use super::base_station;
use super::base_station::counters::Counts;
use super::context::{LabContext, poll};
use super::exec::Cmd;
use super::state;
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::model::Stats;
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time within which counters must stop changing.
const SETTLE: Duration = Duration::from_secs(8);

/// Time between two reads: a node publishes its counters every 50 ms.
const PAUSE: Duration = Duration::from_millis(150);

/// Time that a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Drops that occur in every network: broadcasts of other hosts.
const HARMLESS: [&str; 2] = ["multicast", "non_ip"];

/// Drops under more load than a machine can handle. TCP increases its load until they occur.
const CONGESTION: [&str; 5] = ["port_full", "fabric_full", "no_buffer", MISSED, UNSENT];

/// Frames for which a port had no buffer.
const MISSED: &str = "rx_missed";

/// Frames that a port received and dropped at once.
const REFUSED: &str = "rx_refused";

/// Frames that a port could not send.
const UNSENT: &str = "tx_errors";

/// The counters of a node that the lab uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Packets that ports received and sent, by the names of the counters.
    pub packets: BTreeMap<&'static str, u64>,
    /// Packets that the node dropped, by reason, and its ports.
    pub dropped: BTreeMap<String, u64>,
}

/// Packets from outside. Next hops answer a node all the time, so these counters never stop changing.
const FROM_OUTSIDE: [&str; 2] = ["internet_in", "base_station_in"];

impl From<Stats> for NodeCounts {
    fn from(stats: Stats) -> Self {
        let packets = stats.total.iter().filter(|(spec, _)| spec.family.is_by_worker);
        let packets = packets.map(|(spec, count)| (spec.name, count)).collect();
        let mut dropped = stats.total.dropped;
        for port in &stats.ports {
            for (name, count) in [
                (MISSED, port.rx_missed + port.rx_no_buffer),
                (REFUSED, port.rx_shared + port.rx_unusable),
                (UNSENT, port.tx_errors),
            ] {
                *dropped.entry(name.to_owned()).or_default() += count;
            }
        }
        Self { packets, dropped }
    }
}

/// The increase of counters.
fn increase<N: Ord + Clone>(now: &BTreeMap<N, u64>, before: &BTreeMap<N, u64>) -> BTreeMap<N, u64> {
    let earlier = |name| before.get(name).copied().unwrap_or(0);
    now.iter().map(|(name, count)| (name.clone(), count.saturating_sub(earlier(name)))).collect()
}

impl NodeCounts {
    /// These counters; all others are 0.
    #[cfg(test)]
    pub fn of(packets: &[(&'static str, u64)]) -> Self {
        Self { packets: packets.iter().copied().collect(), ..Self::default() }
    }

    /// Packets that a port received or sent, for example `fabric_in`.
    pub fn count(&self, name: &str) -> u64 {
        self.packets.get(name).copied().unwrap_or(0)
    }

    /// The increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut dropped = increase(&self.dropped, &before.dropped);
        dropped.retain(|_, count| *count > 0);
        Self { packets: increase(&self.packets, &before.packets), dropped }
    }

    /// The counters without packets from outside. Users' packets are also counted where they leave, cross the fabric or are
    /// dropped.
    fn of_users(&self) -> Self {
        let mut counts = self.clone();
        counts.packets.retain(|name, _| !FROM_OUTSIDE.contains(name));
        counts
    }

    /// Users' packets that left the cluster at this node.
    pub fn left(&self) -> u64 {
        self.count("internet_out") + self.count("base_station_out")
    }

    /// Drops that indicate an error.
    pub fn mistakes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.drops().filter(|(reason, _)| !HARMLESS.contains(reason) && !CONGESTION.contains(reason))
    }

    /// Drops because of full buffers or links.
    pub fn congestion(&self) -> impl Iterator<Item = (&str, u64)> {
        self.drops().filter(|(reason, _)| CONGESTION.contains(reason))
    }

    fn drops(&self) -> impl Iterator<Item = (&str, u64)> {
        let drops = self.dropped.iter().map(|(reason, count)| (reason.as_str(), *count));
        drops.filter(|(_, count)| *count > 0)
    }
}

impl LabContext<'_> {
    fn node_counts(&self, node: NodeId) -> Result<NodeCounts, LabError> {
        let stats = Client::new(Target::Unix(self.socket(node)), PATIENCE).and_then(|node| node.stats());
        let failed = |error| LabError::Setup(format!("counters of node {}: {error}", node.get()));
        stats.map(NodeCounts::from).map_err(failed)
    }

    /// The current counters of the nodes that answer.
    pub fn current_counts(&self) -> BTreeMap<NodeId, NodeCounts> {
        let nodes = self.plan.size.nodes();
        nodes.filter_map(|node| Some((node, self.node_counts(node).ok()?))).collect()
    }

    /// The counters of all nodes, once they no longer change, or after a while.
    ///
    /// # Errors
    /// [`LabError`] if a node does not answer.
    pub fn settled_counts(&self) -> Result<Vec<NodeCounts>, LabError> {
        let mut last: Vec<NodeCounts> = Vec::new();
        poll(SETTLE, PAUSE, self.interrupt, || {
            let nodes = self.plan.size.nodes().map(|node| self.node_counts(node));
            let before = std::mem::replace(&mut last, nodes.collect::<Result<_, _>>()?);
            let is_settled =
                last.iter().map(NodeCounts::of_users).eq(before.iter().map(NodeCounts::of_users));
            Ok(is_settled.then_some(()))
        })?;
        Ok(last)
    }

    /// Writes the status and counters of nodes and kernels to files, to find the cause of a failure.
    ///
    /// # Errors
    /// [`LabError::File`]. The file of a node that does not answer contains the error.
    pub fn write_status(&self) -> Result<(), LabError> {
        for (node, page) in
            self.plan.size.nodes().flat_map(|node| ["status", "stats"].map(|page| (node, page)))
        {
            let client = Client::new(Target::Unix(self.socket(node)), PATIENCE);
            let text = client.and_then(|client| client.text(&format!("/v1/{page}")));
            let text = text.unwrap_or_else(|error| error.to_string());
            state::write(&self.path(format!("node{}.{page}.json", node.get())), text.as_bytes())?;
        }
        for namespace in self.plan.namespaces() {
            let mut text = Vec::new();
            for what in ["-s link", "neigh", "route", "-6 route"] {
                text.extend(Cmd::new(&format!("ip -n {namespace} {what}")).finish(self.interrupt)?.stdout);
            }
            state::write(&self.path(format!("{namespace}.txt")), &text)?;
        }
        Ok(())
    }

    /// The base station's counters.
    ///
    /// # Errors
    /// [`LabError`] if it does not answer.
    pub fn base_station_counts(&self) -> Result<Counts, LabError> {
        base_station::counts(&self.base_station_socket())
    }

    /// Sends a request to the base station and waits for up to two seconds until a counter increases; its increase.
    ///
    /// # Errors
    /// [`LabError`] if the base station does not answer.
    pub fn ask_and_count(&self, request: &str, counter: fn(&Counts) -> u64) -> Result<u64, LabError> {
        let before = counter(&self.base_station_counts()?);
        base_station::ask(&self.base_station_socket(), request)?;
        let increase = poll(Duration::from_secs(2), Duration::from_millis(10), self.interrupt, || {
            let increase = counter(&self.base_station_counts()?) - before;
            Ok((increase > 0).then_some(increase))
        });
        Ok(increase?.unwrap_or(0))
    }

    /// Packets that the kernels of phones, base station and Internet host dropped for their checksums, with the names of the
    /// counters.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn bad_checksums(&self) -> Result<Vec<(String, u64)>, LabError> {
        let mut bad = Vec::new();
        for namespace in [self.plan.inet(), self.plan.ran(), self.plan.ue()] {
            let errors = checksum_errors(kernel_counters(&namespace, self.interrupt)?);
            bad.extend(errors.into_iter().map(|(name, count)| (format!("{namespace} {name}"), count)));
        }
        Ok(bad)
    }
}

/// The kernel's counters of a namespace, by name.
///
/// # Errors
/// As [`Cmd::run`].
pub fn kernel_counters(namespace: &str, interrupt: &Interrupt) -> Result<BTreeMap<String, u64>, LabError> {
    let cat = Cmd::new("cat /proc/net/snmp /proc/net/snmp6").inside(namespace);
    Ok(kernel_counters_in(&cat.run(interrupt)?))
}

/// In `snmp`, a line of names precedes each line of numbers; in `snmp6`, each line has a name and a number.
fn kernel_counters_in(shown: &str) -> BTreeMap<String, u64> {
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    let mut found = Vec::new();
    for pair in lines.windows(2) {
        if let ([protocol, names @ ..], [again, numbers @ ..]) = (&pair[0][..], &pair[1][..])
            && protocol == again
            && protocol.ends_with(':')
        {
            found.extend(
                names.iter().zip(numbers).map(|(name, number)| (format!("{protocol}{name}"), *number)),
            );
        }
    }
    for line in &lines {
        if let [name, number] = line[..] {
            found.push((name.to_owned(), number));
        }
    }
    // Some values are negative; none of these is a counter.
    found.into_iter().filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}

/// Counters of checksum errors that are not 0.
fn checksum_errors(found: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    // IPv4 counts wrong header checksums among InHdrErrors.
    let is_checksum = |name: &str| name.ends_with("CsumErrors") || name == "Ip:InHdrErrors";
    found.into_iter().filter(|(name, count)| *count > 0 && is_checksum(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_checksums_are_found_in_both_files() {
        let shown = "Ip: Forwarding InHdrErrors\nIp: 1 2\nTcp: InSegs InCsumErrors\nTcp: 9 4\nUdp: InCsumErrors\nUdp: 0\n\
                    Ip6InReceives \t 7\nUdp6InCsumErrors \t 5\n";
        let found = checksum_errors(kernel_counters_in(shown));
        let expected = [("Ip:InHdrErrors", 2), ("Tcp:InCsumErrors", 4), ("Udp6InCsumErrors", 5)];
        assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn answers_of_next_hops_do_not_keep_counters_from_settling() {
        let counts = |outside, fabric_in| {
            NodeCounts::of(&[
                ("internet_in", outside),
                ("base_station_in", 2 * outside),
                ("fabric_in", fabric_in),
            ])
        };
        assert_eq!(counts(4, 7).of_users(), counts(5, 7).of_users());
        assert_ne!(counts(4, 7).of_users(), counts(4, 8).of_users());
    }

    #[test]
    fn increases_are_reported_and_harmless_drops_are_not() {
        let counts = |internet_in, multicast, truncated| NodeCounts {
            dropped: [("multicast", multicast), ("truncated", truncated), (MISSED, truncated)]
                .map(|(reason, count)| (reason.to_owned(), count))
                .into(),
            ..NodeCounts::of(&[("internet_in", internet_in)])
        };
        let added = counts(7, 3, 5).since(&counts(4, 1, 4));
        assert_eq!(added.count("internet_in"), 3);
        assert_eq!(added.mistakes().collect::<Vec<_>>(), [("truncated", 1)]);
        assert_eq!(added.congestion().collect::<Vec<_>>(), [(MISSED, 1)]);
    }
}
