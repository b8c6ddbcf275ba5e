//! What nodes, kernels and the base station count, before and after.

use super::LabError;
use super::base_station;
use super::base_station::counters::Counts;
use super::exec::Cmd;
use super::nodes::Processes;
use super::plan::Plan;
use super::state;
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::model::Stats;
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// Looks at counters until they stand still.
const LOOKS: usize = 50;

/// Time between two looks: a node tells what it counted every 50 ms.
const PAUSE: Duration = Duration::from_millis(150);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Drops that happen on a network where all is well: what others say to everybody.
const HARMLESS: [&str; 2] = ["multicast", "non_ip"];

/// Drops that happen under more load than a machine can take. TCP goes to that point and a little beyond.
const CONGESTION: [&str; 5] = ["port_full", "fabric_full", "no_buffer", MISSED, UNSENT];

/// What a port had no room for.
const MISSED: &str = "rx_missed";

/// What a port received and gave back at once.
const REFUSED: &str = "rx_refused";

/// What a port could not send.
const UNSENT: &str = "tx_errors";

/// What a node counts, as far as the lab looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Packets that ports took in and sent, by the names of the counters.
    pub packets: BTreeMap<&'static str, u64>,
    /// Dropped by the node, by reason, and by its ports.
    pub dropped: BTreeMap<String, u64>,
}

/// What enters from outside. Next hops answer a node all the time, so these counters never stand still.
const FROM_OUTSIDE: [&str; 2] = ["internet_in", "base_station_in"];

impl From<Stats> for NodeCounts {
    fn from(stats: Stats) -> Self {
        let packets = stats.total.iter().filter(|(spec, _)| spec.family.is_by_worker);
        let packets = packets.map(|(spec, count)| (spec.name, count)).collect();
        let mut dropped = stats.total.dropped;
        let missed = stats.ports.iter().map(|port| port.rx_missed + port.rx_no_buffer).sum();
        let unsent = stats.ports.iter().map(|port| port.tx_errors).sum();
        let refused = stats.ports.iter().map(|port| port.rx_shared + port.rx_unusable).sum();
        dropped.extend(
            [(MISSED, missed), (REFUSED, refused), (UNSENT, unsent)]
                .map(|(name, count)| (name.to_owned(), count)),
        );
        Self { packets, dropped }
    }
}

/// What was added to counts since.
fn added<N: Ord + Clone>(now: &BTreeMap<N, u64>, before: &BTreeMap<N, u64>) -> BTreeMap<N, u64> {
    let earlier = |name| before.get(name).copied().unwrap_or(0);
    now.iter().map(|(name, count)| (name.clone(), count.saturating_sub(earlier(name)))).collect()
}

impl NodeCounts {
    /// These counts, and 0 of all else.
    #[cfg(test)]
    pub fn of(packets: &[(&'static str, u64)]) -> Self {
        Self { packets: packets.iter().copied().collect(), ..Self::default() }
    }

    /// Packets that a port took in or sent, as `fabric_in`.
    pub fn count(&self, name: &str) -> u64 {
        self.packets.get(name).copied().unwrap_or(0)
    }

    /// What was added since.
    pub fn since(&self, before: &Self) -> Self {
        let mut dropped = added(&self.dropped, &before.dropped);
        dropped.retain(|_, count| *count > 0);
        Self { packets: added(&self.packets, &before.packets), dropped }
    }

    /// The same without what enters from outside. What users send is seen where it leaves, crosses the fabric or is dropped.
    fn of_users(&self) -> Self {
        let mut counts = self.clone();
        counts.packets.retain(|name, _| !FROM_OUTSIDE.contains(name));
        counts
    }

    /// Packets of users that left the cluster here.
    pub fn left(&self) -> u64 {
        self.count("internet_out") + self.count("base_station_out")
    }

    /// Drops that tell of a mistake.
    pub fn mistakes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.drops().filter(|(reason, _)| !HARMLESS.contains(reason) && !CONGESTION.contains(reason))
    }

    /// Drops for want of room.
    pub fn congestion(&self) -> impl Iterator<Item = (&str, u64)> {
        self.drops().filter(|(reason, _)| CONGESTION.contains(reason))
    }

    fn drops(&self) -> impl Iterator<Item = (&str, u64)> {
        let drops = self.dropped.iter().map(|(reason, count)| (reason.as_str(), *count));
        drops.filter(|(_, count)| *count > 0)
    }
}

/// Looks at counters.
#[derive(Debug, Clone, Copy)]
pub struct Observer<'a> {
    /// Of which lab.
    pub plan: &'a Plan,
    /// Where its sockets are.
    pub processes: Processes<'a>,
    /// Whether to go on.
    pub interrupt: &'a Interrupt,
}

impl Observer<'_> {
    fn node(&self, node: NodeId) -> Result<NodeCounts, LabError> {
        let stats =
            Client::new(Target::Unix(self.processes.socket(node)), PATIENCE).and_then(|node| node.stats());
        let told = |error| LabError::Setup { what: format!("counters of node {}: {error}", node.get()) };
        stats.map(NodeCounts::from).map_err(told)
    }

    /// The counters of the nodes that answer, as they are now.
    pub fn now(&self) -> BTreeMap<NodeId, NodeCounts> {
        let nodes = self.plan.size.nodes();
        nodes.filter_map(|node| Some((node, self.node(node).ok()?))).collect()
    }

    /// The counters of all nodes, once they stand still.
    ///
    /// # Errors
    /// [`LabError`] if a node does not answer.
    pub fn nodes(&self) -> Result<Vec<NodeCounts>, LabError> {
        let read = || self.plan.size.nodes().map(|node| self.node(node)).collect::<Result<Vec<_>, _>>();
        let mut last = read()?;
        for _ in 0..LOOKS {
            self.interrupt.check()?;
            thread::sleep(PAUSE);
            let next = read()?;
            if next.iter().map(NodeCounts::of_users).eq(last.iter().map(NodeCounts::of_users)) {
                break;
            }
            last = next;
        }
        Ok(last)
    }

    /// Everything that nodes and kernels tell of themselves, into files beside their logs: for whoever looks at a failure.
    ///
    /// # Errors
    /// [`LabError::File`]. What somebody does not tell is what its file says.
    pub fn look(&self) -> Result<(), LabError> {
        let directory = self.processes.directory;
        let pages = [("status", "/v1/status"), ("stats", "/v1/stats")];
        for (node, (name, page)) in self.plan.size.nodes().flat_map(|node| pages.map(|page| (node, page))) {
            let client = Client::new(Target::Unix(self.processes.socket(node)), PATIENCE);
            let told = client.and_then(|client| client.text(page)).unwrap_or_else(|error| error.to_string());
            state::write(&directory.join(format!("node{}.{name}.json", node.get())), told.as_bytes())?;
        }
        for namespace in self.plan.namespaces() {
            let mut told = Vec::new();
            for what in ["-s link", "neigh", "route", "-6 route"] {
                let done = Cmd::new(&format!("ip -n {namespace} {what}")).finish(self.interrupt)?;
                told.extend(done.stdout);
            }
            state::write(&directory.join(format!("{namespace}.txt")), &told)?;
        }
        Ok(())
    }

    /// What the base station counts.
    ///
    /// # Errors
    /// [`LabError`] if it does not answer.
    pub fn base_station(&self) -> Result<Counts, LabError> {
        base_station::counts(&self.processes.base_station_socket())
    }

    /// Packets that the kernels of phones, base station and Internet host refused for their checksums, with the names
    /// of the counters.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn bad_checksums(&self) -> Result<Vec<(String, u64)>, LabError> {
        let mut bad = Vec::new();
        for namespace in [self.plan.inet(), self.plan.ran(), self.plan.ue()] {
            let cat = Cmd::new("cat /proc/net/snmp /proc/net/snmp6").inside(&namespace);
            let told = cat.run(self.interrupt)?;
            bad.extend(checksum_errors(&told).map(|(name, count)| (format!("{namespace} {name}"), count)));
        }
        Ok(bad)
    }
}

/// Counters of checksum errors that are not 0. `snmp` has a line of names above each line of numbers, `snmp6` a name
/// and a number a line.
fn checksum_errors(told: &str) -> impl Iterator<Item = (String, u64)> {
    let lines: Vec<&str> = told.lines().collect();
    let mut found = Vec::new();
    for pair in lines.windows(2) {
        let (names, numbers) = (pair[0].split_ascii_whitespace(), pair[1].split_ascii_whitespace());
        let mut columns = names.zip(numbers);
        if let Some((protocol, _)) = columns.next().filter(|(a, b)| a == b && a.ends_with(':')) {
            found.extend(columns.map(|(name, number)| (format!("{protocol}{name}"), number)));
        }
    }
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        if let (Some(name), Some(number), None) = (words.next(), words.next(), words.next()) {
            found.push((name.to_owned(), number));
        }
    }
    // IPv4 counts wrong header checksums among InHdrErrors.
    let is_one = |name: &str| name.ends_with("CsumErrors") || name == "Ip:InHdrErrors";
    let counts = found.into_iter().filter(move |(name, _)| is_one(name));
    counts
        .filter_map(|(name, number)| Some((name, number.parse().ok().filter(|count| *count > 0)?)))
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_checksums_are_found_in_both_files() {
        let told = "Ip: Forwarding InHdrErrors\nIp: 1 2\nTcp: InSegs InCsumErrors\nTcp: 9 4\nUdp: InCsumErrors\nUdp: 0\n\
                    Ip6InReceives \t 7\nUdp6InCsumErrors \t 5\n";
        let found: Vec<_> = checksum_errors(told).collect();
        let expected = [("Ip:InHdrErrors", 2), ("Tcp:InCsumErrors", 4), ("Udp6InCsumErrors", 5)];
        assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn answers_of_next_hops_do_not_keep_counters_from_standing_still() {
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
    fn what_was_added_is_told_and_harmless_drops_are_not() {
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
