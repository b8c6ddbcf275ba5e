//! How much a router reorders flows.

use std::collections::HashMap;

/// Counts reordered packets of flows whose packets are numbered in the order of sending. A packet is late if one with a
/// larger number arrived before it.
#[derive(Debug, Clone, Default)]
pub struct Reordering {
    flows: HashMap<u64, FlowOrder>,
    counts: Counts,
}

/// The state of a flow: what RFC 4737 §3.3 calls `NextExp`, and where it is.
#[derive(Debug, Clone, Copy, Default)]
struct FlowOrder {
    next_expected: u64,
    /// The last packet was late.
    is_late: bool,
    had_late: bool,
}

/// Packets and flows, and which of them were reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that arrived.
    pub packets: u64,
    /// Late packets: Type-P-Reordered of RFC 4737 §3.
    pub late: u64,
    /// Maximal runs of late packets: reordered sequences of RouteBricks §6.2, where p1 p4 p2 p3 p5 has one.
    pub sequences: u64,
    /// Flows that arrived.
    pub flows: u64,
    /// Flows with a late packet.
    pub flows_late: u64,
}

impl Counts {
    /// Reordered sequences per packet: the metric of RouteBricks §6.2.
    pub fn sequence_ratio(&self) -> f64 {
        ratio(self.sequences, self.packets)
    }

    /// Late packets per packet: Type-P-Reordered-Ratio-Stream of RFC 4737 §4.1.
    pub fn late_ratio(&self) -> f64 {
        ratio(self.late, self.packets)
    }

    /// The share of flows with a late packet.
    pub fn flow_ratio(&self) -> f64 {
        ratio(self.flows_late, self.flows)
    }
}

fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

impl Reordering {
    /// Nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet arrives; `number` is its place in its flow. Returns whether it is late.
    pub fn arrive(&mut self, flow: u64, number: u64) -> bool {
        let Self { flows, counts } = self;
        let flow = flows.entry(flow).or_insert_with(|| {
            counts.flows += 1;
            FlowOrder::default()
        });
        counts.packets += 1;
        let is_late = number < flow.next_expected;
        if is_late {
            counts.late += 1;
            counts.sequences += u64::from(!flow.is_late);
            counts.flows_late += u64::from(!flow.had_late);
            flow.had_late = true;
        } else {
            flow.next_expected = number.saturating_add(1);
        }
        flow.is_late = is_late;
        is_late
    }

    /// The counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(arrivals: &[u64]) -> Counts {
        let mut reordering = Reordering::new();
        for &number in arrivals {
            reordering.arrive(0, number);
        }
        reordering.counts()
    }

    #[test]
    fn the_papers_example_is_one_sequence() {
        let counts = of(&[1, 4, 2, 3, 5]);
        assert_eq!((counts.sequences, counts.late, counts.packets), (1, 2, 5));
        assert!((counts.sequence_ratio() - 0.2).abs() < 1e-12 && (counts.late_ratio() - 0.4).abs() < 1e-12);
        assert_eq!((of(&[1, 2, 3]).late, of(&[3, 1, 4, 2]).sequences), (0, 2));
        assert!(Counts::default().flow_ratio().abs() < 1e-12);
    }

    proptest! {
        /// Late by the definition: one with a larger number came before.
        #[test]
        fn it_counts_what_the_definition_says(arrivals in prop::collection::vec((0..3u64, 0..20u64), 0..60)) {
            let mut reordering = Reordering::new();
            let fast: Vec<bool> = arrivals.iter().map(|&(flow, number)| reordering.arrive(flow, number)).collect();
            let (mut sequences, mut flows_late, mut flows) = (0, 0, 0);
            for flow in 0..3 {
                let places: Vec<usize> = (0..arrivals.len()).filter(|&at| arrivals[at].0 == flow).collect();
                let late: Vec<bool> = (0..places.len()).map(|at| {
                    let number = |place: usize| arrivals[places[place]].1;
                    // A duplicate of the largest counts as late too, as in RFC 4737.
                    (0..at).any(|before| number(before) >= number(at))
                }).collect();
                for (at, &place) in places.iter().enumerate() {
                    prop_assert_eq!(fast[place], late[at]);
                }
                sequences += late.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as u64;
                flows += u64::from(!places.is_empty());
                flows_late += u64::from(late.contains(&true));
            }
            let late = fast.iter().filter(|&&late| late).count() as u64;
            let packets = arrivals.len() as u64;
            prop_assert_eq!(reordering.counts(), Counts { packets, late, sequences, flows, flows_late });
        }
    }
}
