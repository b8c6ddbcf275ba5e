//! The summary of a run.

use super::counted;
use super::record::{Record, end};
use comfy_table::{CellAlignment, Table};
use scalebricks_admin::commands::{table, trimmed};
use scalebricks_console::quantity;
use scalebricks_flows::tracker::{Balancer, EndCause, Event, Tracker, Untracked};
use scalebricks_flows::{Named, Tally};
use scalebricks_flows::{fragments, reassembly, tcp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt::Write;
use std::net::IpAddr;

/// Addresses that are counted one by one; all others are counted together.
const ADDRESSES: usize = 1 << 16;

/// Frames that do not reach the tracker, and all.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) all: u64,
    pub(super) bytes: u64,
    pub(super) not_ip: u64,
    pub(super) malformed: u64,
    pub(super) unsupported_link: u64,
    /// Longer than an IP packet can be: joined by the kernel (BIG TCP).
    pub(super) too_long: u64,
    /// Counters of the ports, if packets came from ports.
    pub(super) ports: Vec<PortCounters>,
}

impl Frames {
    /// Frames that have no packet for a tracker, by the reason.
    pub(super) fn without_packet(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("not_ip", self.not_ip),
            ("malformed_frame", self.malformed),
            ("unsupported_link_type", self.unsupported_link),
            ("longer_than_64_kib", self.too_long),
        ];
        all.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Counters of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortCounters {
    pub(super) name: String,
    /// Frames for this program, dropped ones included.
    pub(super) frames: u64,
    /// Frames that the kernel or the device dropped because they were not fetched in time.
    pub(super) dropped: u64,
}

/// The counters of all trackers.
#[derive(Debug, Default)]
pub(super) struct Totals {
    events: Tally<Event>,
    untracked: Tally<Untracked>,
    ends: Tally<EndCause>,
    anomalies: Tally<tcp::Anomaly>,
    streams: Tally<reassembly::Event>,
    gaps: Tally<reassembly::GapCause>,
    fragments: Tally<fragments::Event>,
    refusals: Tally<fragments::Refusal>,
}

impl Totals {
    pub(super) fn add(&mut self, tracker: &Tracker) {
        self.events.merge(tracker.events());
        self.untracked.merge(tracker.untracked());
        self.ends.merge(tracker.ends());
        self.anomalies.merge(tracker.anomalies());
        if let Some(reassembler) = tracker.reassembler() {
            self.streams.merge(reassembler.events());
            self.gaps.merge(reassembler.gaps());
        }
        self.fragments.merge(tracker.defragmenter().events());
        self.refusals.merge(tracker.defragmenter().refusals());
    }

    pub(super) fn add_balancer(&mut self, balancer: &Balancer) {
        self.untracked.merge(balancer.untracked());
        self.fragments.merge(balancer.defragmenter().events());
        self.refusals.merge(balancer.defragmenter().refusals());
    }
}

/// Flows and addresses with most bytes.
#[derive(Debug)]
pub(super) struct Top {
    most: usize,
    /// By bytes; of equal ones, the earliest.
    flows: BinaryHeap<Reverse<(u64, Reverse<u64>, Line)>>,
    addresses: HashMap<IpAddr, (u64, u64)>,
    other_addresses_bytes: u64,
    protocols: BTreeMap<String, (u64, u64, u64)>,
}

/// A flow in the list.
type Line = [String; 6];

impl Top {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            flows: BinaryHeap::new(),
            addresses: HashMap::new(),
            other_addresses_bytes: 0,
            protocols: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, record: &Record) {
        let bytes = record.bytes.sum();
        let (flows, packets, total) = self.protocols.entry(record.protocol.clone()).or_default();
        *flows += 1;
        *packets += record.packets.sum();
        *total += bytes;
        for address in [record.source, record.destination] {
            if self.addresses.len() < ADDRESSES || self.addresses.contains_key(&address) {
                let (flows, total) = self.addresses.entry(address).or_default();
                *flows += 1;
                *total += bytes;
            } else {
                self.other_addresses_bytes += bytes;
            }
        }
        let least = self.flows.peek().map_or(0, |Reverse((bytes, ..))| *bytes);
        if self.flows.len() < self.most || bytes > least {
            self.flows.push(Reverse((bytes, Reverse(record.flow), line(record))));
            if self.flows.len() > self.most {
                self.flows.pop();
            }
        }
    }
}

fn line(record: &Record) -> Line {
    [
        record.protocol.clone(),
        end(record.source, record.source_port),
        end(record.destination, record.destination_port),
        quantity::count(record.packets.sum()),
        quantity::count(record.bytes.sum()),
        format!("{}, {}", record.state, record.ended),
    ]
}

/// What a run found.
pub(super) struct Summary<'a> {
    pub(super) frames: &'a Frames,
    pub(super) totals: &'a Totals,
    pub(super) top: &'a Top,
}

impl Summary<'_> {
    /// The text.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        let (frames, totals) = (self.frames, self.totals);
        let events = &totals.events;
        let _ = writeln!(
            out,
            "{} frames with {}: {} packets in {} flows",
            quantity::count(frames.all),
            quantity::bytes(frames.bytes),
            quantity::count(events.get(Event::Tracked)),
            quantity::count(events.get(Event::Began)),
        );
        for PortCounters { name, frames, dropped } in &frames.ports {
            let (frames, dropped) = (quantity::count(*frames), quantity::count(*dropped));
            let _ = writeln!(out, "port {name}: {frames} frames, {dropped} of them dropped by the port");
        }
        list(&mut out, "in no flow", frames.without_packet().chain(counted(&totals.untracked)));
        list(&mut out, "flows ended", counted(&totals.ends));
        list(&mut out, "unusual TCP segments", counted(&totals.anomalies));
        list(&mut out, "TCP streams", counted(&totals.streams));
        list(&mut out, "gaps", counted(&totals.gaps));
        let fragments = counted(&totals.fragments).into_iter().chain(counted(&totals.refusals));
        list(&mut out, "fragments", fragments);
        list(&mut out, "ICMP", one(events, Event::RelatedError));
        list(&mut out, "records of flows that lasted", one(events, Event::Reported));
        self.tables(&mut out);
        out.trim_end().to_owned()
    }

    fn tables(&self, out: &mut String) {
        let top = self.top;
        let mut protocols = numbers(["protocol", "flows", "packets", "bytes"], 1..4);
        for (protocol, (flows, packets, bytes)) in &top.protocols {
            let [flows, packets, bytes] = [flows, packets, bytes].map(|number| quantity::count(*number));
            protocols.add_row([protocol.clone(), flows, packets, bytes]);
        }
        let _ = writeln!(out, "\n{}", trimmed(&protocols));
        if top.most == 0 {
            return;
        }
        let mut flows = numbers(["protocol", "from", "to", "packets", "bytes", "state, end"], 3..5);
        let mut sorted: Vec<_> = top.flows.iter().map(|Reverse(entry)| entry).collect();
        sorted.sort_by(|a, b| b.cmp(a));
        for (_, _, line) in sorted {
            flows.add_row(line);
        }
        let _ = writeln!(out, "\nflows with most bytes\n{}", trimmed(&flows));
        let mut addresses: Vec<_> = top.addresses.iter().collect();
        addresses.sort_by_key(|(address, (_, bytes))| (Reverse(*bytes), **address));
        let mut hosts = numbers(["address", "flows", "bytes"], 1..3);
        for (address, (flows, bytes)) in addresses.into_iter().take(top.most) {
            hosts.add_row([address.to_string(), quantity::count(*flows), quantity::count(*bytes)]);
        }
        let _ = writeln!(out, "\naddresses with most bytes\n{}", trimmed(&hosts));
        if top.other_addresses_bytes > 0 {
            let bytes = quantity::count(top.other_addresses_bytes);
            let _ = writeln!(out, "addresses beyond the first {ADDRESSES}: {bytes} bytes");
        }
    }
}

/// A counter, if it is not zero.
fn one(events: &Tally<Event>, event: Event) -> Vec<(&'static str, u64)> {
    Some((event.name(), events.get(event))).filter(|(_, count)| *count > 0).into_iter().collect()
}

/// A line with counters, if there are any.
fn list(out: &mut String, title: &str, counters: impl IntoIterator<Item = (&'static str, u64)>) {
    let counters: Vec<String> =
        counters.into_iter().map(|(name, count)| format!("{name} {}", quantity::count(count))).collect();
    if !counters.is_empty() {
        let _ = writeln!(out, "{title}: {}", counters.join(", "));
    }
}

/// A table with these columns to the right.
pub(super) fn numbers<const N: usize>(header: [&str; N], right: std::ops::Range<usize>) -> Table {
    let mut table = table(header);
    for at in right {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
