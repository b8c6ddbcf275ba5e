//! The flows with most traffic in an interval.

use clap::ValueEnum;
use rustc_hash::FxHashMap;
use scalebricks_flows::tracker::{Flow, Tracked, Tracker};
use scalebricks_types::FiveTuple;
use std::cmp::Reverse;

/// Flows that are counted one by one in an interval; the traffic of all others is one number.
const MOST: usize = 1 << 16;

/// By what flows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Bits per second
    Bytes,
    /// Packets per second
    Packets,
}

/// The table's length and order.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Ranking {
    pub(in super::super) most: usize,
    pub(in super::super) order: Order,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Traffic {
    pub(in super::super) packets: u64,
    pub(in super::super) bytes: u64,
}

impl Traffic {
    pub(super) const fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// A flow with packets in this interval.
#[derive(Debug, Clone)]
pub(in super::super) struct Talker {
    pub(super) tuple: FiveTuple,
    /// The flow after its last packet.
    pub(super) flow: Flow,
    /// In the interval.
    pub(super) traffic: Traffic,
}

/// What a tracker had in an interval.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Report {
    /// Flows now.
    pub(super) flows: usize,
    /// Flows that began and ended since the start.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Packets that are in no flow since the start.
    pub(super) untracked: u64,
    /// The flows with most traffic in the interval, in order.
    pub(super) talkers: Vec<Talker>,
    /// Traffic of flows that were not counted one by one.
    pub(super) others: Traffic,
}

impl Report {
    /// Adds another tracker's.
    pub(super) fn add(&mut self, other: Self, ranking: Ranking) {
        self.flows += other.flows;
        self.began += other.began;
        self.ended += other.ended;
        self.untracked += other.untracked;
        self.talkers.extend(other.talkers);
        rank(&mut self.talkers, ranking);
        self.others.add(other.others);
    }
}

/// Length of the IP packet at the start of `bytes`, as its header says; padding may follow it.
pub(in super::super) fn ip_len(bytes: &[u8]) -> u64 {
    let field = |at: usize| {
        let pair = bytes.get(at..).and_then(|rest| rest.first_chunk());
        pair.map_or(0, |pair| u64::from(u16::from_be_bytes(*pair)))
    };
    match bytes.first().map(|first| first >> 4) {
        Some(4) => field(2),
        Some(6) => 40 + field(4),
        _ => 0,
    }
}

/// The flows of a tracker with packets in an interval.
#[derive(Debug)]
pub(in super::super) struct Talkers {
    ranking: Ranking,
    flows: FxHashMap<u64, Talker>,
    others: Traffic,
}

impl Talkers {
    pub(in super::super) fn new(ranking: Ranking) -> Self {
        Self { ranking, flows: FxHashMap::default(), others: Traffic::default() }
    }

    /// Counts a packet of a flow that was just tracked.
    pub(in super::super) fn add(&mut self, tracker: &Tracker, tracked: &Tracked, bytes: u64) {
        if tracked.is_related || self.ranking.most == 0 {
            return;
        }
        let traffic = Traffic { packets: 1, bytes };
        if let Some(talker) = self.flows.get_mut(&tracked.serial) {
            talker.traffic.add(traffic);
            talker.flow = *tracker.flow(tracked);
        } else if let Some(tuple) = tracker.tuple(tracked).filter(|_| self.flows.len() < MOST) {
            self.flows.insert(tracked.serial, Talker { tuple, flow: *tracker.flow(tracked), traffic });
        } else {
            self.others.add(traffic);
        }
    }

    /// What happened, and begins the next interval.
    pub(in super::super) fn report(&mut self, tracker: &Tracker) -> Report {
        use scalebricks_flows::tracker::Event;
        let mut talkers: Vec<Talker> = self.flows.drain().map(|(_, talker)| talker).collect();
        rank(&mut talkers, self.ranking);
        Report {
            flows: tracker.flows(),
            began: tracker.events().get(Event::Began),
            ended: tracker.events().get(Event::Ended),
            untracked: tracker.untracked().iter().map(|(_, count)| count).sum(),
            talkers,
            others: std::mem::take(&mut self.others),
        }
    }
}

/// Puts the flows in order, and forgets those behind the last.
fn rank(talkers: &mut Vec<Talker>, ranking: Ranking) {
    talkers.sort_unstable_by_key(|talker| {
        let Traffic { packets, bytes } = talker.traffic;
        let by = match ranking.order {
            Order::Bytes => (bytes, packets),
            Order::Packets => (packets, bytes),
        };
        (Reverse(by), talker.flow.first_ns, talker.flow.serial)
    });
    talkers.truncate(ranking.most);
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_flows::tracker::{Config, Tables};
    use scalebricks_types::HashSeed;
    use std::time::Duration;

    /// A UDP packet from a port, with so many bytes in all.
    fn packet(port: u16, len: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        bytes.extend([port.to_be_bytes(), [0, 53], (len - 20).to_be_bytes(), [0, 0]].concat());
        bytes.resize(usize::from(len), 0);
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    /// The ports and traffic of a report's flows.
    fn rows(report: &Report) -> Vec<(u16, u64, u64)> {
        let row = |talker: &Talker| (talker.tuple.src_port, talker.traffic.packets, talker.traffic.bytes);
        report.talkers.iter().map(row).collect()
    }

    fn add(talkers: &mut Talkers, tracker: &mut Tracker, bytes: &[u8]) {
        let tracked = tracker.track(bytes, 0, Duration::from_secs(1), &mut ()).unwrap();
        talkers.add(tracker, &tracked, ip_len(bytes));
    }

    #[test]
    fn flows_are_ranked_by_the_traffic_of_the_interval() {
        let mut tracker = Tracker::new(&Config::default(), HashSeed::new(1, 2), Tables::default()).unwrap();
        for (order, most, want) in [
            (Order::Bytes, 2, vec![(3, 1, 900), (1, 3, 300)]),
            (Order::Packets, 3, vec![(1, 3, 300), (2, 2, 100), (3, 1, 900)]),
            (Order::Bytes, 0, vec![]),
        ] {
            let mut talkers = Talkers::new(Ranking { most, order });
            for (port, len) in [(1, 100), (3, 900), (2, 50), (1, 100), (2, 50), (1, 100)] {
                add(&mut talkers, &mut tracker, &packet(port, len));
            }
            let report = talkers.report(&tracker);
            assert_eq!(rows(&report), want);
            assert_eq!((report.flows, report.began, report.others), (3, 3, Traffic::default()));
            add(&mut talkers, &mut tracker, &packet(2, 60));
            let next = talkers.report(&tracker);
            assert_eq!(rows(&next), if most == 0 { vec![] } else { vec![(2, 1, 60)] });
        }
    }

    #[test]
    fn memory_is_bounded_and_the_rest_is_counted() {
        let config = Config { young_flows: 1 << 20, ..Config::default() };
        let mut tracker = Tracker::new(&config, HashSeed::new(1, 2), Tables::default()).unwrap();
        let mut talkers = Talkers::new(Ranking { most: 1, order: Order::Bytes });
        for number in 0..MOST + 100 {
            let mut bytes = packet((number % 60_000) as u16, 40);
            bytes[15] = (number / 60_000) as u8;
            add(&mut talkers, &mut tracker, &bytes);
        }
        assert_eq!(talkers.flows.len(), MOST);
        assert_eq!(talkers.report(&tracker).others, Traffic { packets: 100, bytes: 4_000 });
    }

    #[test]
    fn reports_of_several_trackers_are_one() {
        let mut tracker = Tracker::new(&Config::default(), HashSeed::new(1, 2), Tables::default()).unwrap();
        let ranking = Ranking { most: 2, order: Order::Bytes };
        let mut sum = Report::default();
        for (port, len) in [(1, 100), (2, 300), (3, 200)] {
            let mut talkers = Talkers::new(ranking);
            add(&mut talkers, &mut tracker, &packet(port, len));
            sum.add(Report { flows: 1, ..talkers.report(&tracker) }, ranking);
        }
        assert_eq!((rows(&sum), sum.flows), (vec![(2, 1, 300), (3, 1, 200)], 3));
    }

    #[test]
    fn lengths_are_those_of_headers() {
        assert_eq!(ip_len(&[packet(1, 77), vec![0; 9]].concat()), 77);
        assert_eq!(ip_len(&[0x60, 0, 0, 0, 1, 0]), 296);
        assert_eq!((ip_len(&[0x45, 0, 1]), ip_len(&[])), (0, 0));
    }
}
