//! The packets of one flow, and its losses before, during and after an outage.

use super::loads::Route;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A packet that takes longer is late and counts as lost: it waited for a node that did not run.
pub const LATE: Duration = Duration::from_secs(1);

/// How long a packet may be in flight on a busy machine: an outage may affect packets that were sent so shortly before it.
pub const IN_FLIGHT: Duration = Duration::from_millis(200);

/// A packet that takes longer was forwarded by a node whose lease had expired.
pub const STALE: Duration = Duration::from_secs(10);

/// The packets of a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Its name in reports.
    pub name: String,
    /// The nodes that its packets meet.
    pub route: Route,
    /// When each packet was sent, as Unix time in seconds, ascending, and whether it arrived in time.
    pub packets: Vec<(f64, bool)>,
    /// Packets that arrived too late.
    pub late: u64,
    /// Of these, packets that took longer than [`STALE`].
    pub stale: u64,
    /// Packets that arrived more than once.
    pub doubled: u64,
}

/// The times of an outage, as Unix time in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// All loads run. Earlier packets do not count: addresses were not resolved, or the other end had not started.
    pub from: f64,
    /// The failure.
    pub at: f64,
    /// The repair.
    pub repaired: f64,
}

impl Moments {
    /// The earliest time at which a packet may have been sent that the failure lost: a killed node loses its queues.
    pub fn first_at_risk(self) -> f64 {
        self.at - IN_FLIGHT.as_secs_f64()
    }
}

/// The losses of some flows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Damage {
    /// Flows.
    pub flows: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost before the failure that were not in flight then.
    pub lost_before: u64,
    /// Packets lost from then on until the repair.
    pub lost: u64,
    /// Packets lost after the repair.
    pub lost_after: u64,
    /// From the failure to the last lost packet that was sent before the repair, seconds; 0 if none was lost.
    #[serde(skip)]
    pub recovery_s: f64,
    /// From the repair to the last lost packet, seconds; 0 if none was lost.
    #[serde(skip)]
    pub return_s: f64,
    /// Packets that arrived too late.
    #[serde(skip)]
    pub late: u64,
    /// Of these, packets that took longer than [`STALE`].
    #[serde(skip)]
    pub stale: u64,
    /// Packets that arrived more than once.
    #[serde(skip)]
    pub doubled: u64,
}

impl Track {
    /// The packets of a flow: when each was sent, and the number and microseconds in flight of those that arrived.
    pub fn new(name: String, route: Route, sent: &[f64], arrived: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut packets: Vec<(f64, bool)> = sent.iter().map(|at| (*at, false)).collect();
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut late, mut stale, mut doubled) = (0, 0, 0);
        for (number, took_us) in arrived {
            let times = seen.entry(number).or_default();
            *times += 1;
            if *times > 1 {
                doubled += 1;
                continue;
            }
            let took = Duration::from_micros(took_us);
            late += u64::from(took > LATE);
            stale += u64::from(took > STALE);
            let packet = usize::try_from(number).ok().and_then(|number| packets.get_mut(number));
            if let Some((_, is_there)) = packet {
                *is_there = took <= LATE;
            }
        }
        Self { name, route, packets, late, stale, doubled }
    }

    /// When lost packets of an interval were sent, as Unix time in seconds.
    pub fn lost_within(&self, from: f64, to: f64) -> impl Iterator<Item = f64> + '_ {
        let lost = self.packets.iter().filter(|(_, is_there)| !is_there).map(|(at, _)| *at);
        lost.filter(move |at| (from..to).contains(at))
    }

    /// The losses of this flow.
    pub fn damage(&self, moments: Moments) -> Damage {
        let counts = || self.packets.iter().filter(|(at, _)| *at >= moments.from);
        let mut damage = Damage {
            flows: 1,
            sent: counts().count() as u64,
            late: self.late,
            stale: self.stale,
            doubled: self.doubled,
            ..Damage::default()
        };
        for (at, _) in counts().filter(|(_, is_there)| !is_there) {
            if *at < moments.first_at_risk() {
                damage.lost_before += 1;
            } else if *at < moments.repaired {
                damage.lost += 1;
                damage.recovery_s = damage.recovery_s.max(at - moments.at);
            } else {
                damage.lost_after += 1;
                damage.return_s = damage.return_s.max(at - moments.repaired);
            }
        }
        damage
    }
}

impl Damage {
    /// The losses of more flows.
    pub fn and(self, other: Self) -> Self {
        Self {
            flows: self.flows + other.flows,
            sent: self.sent + other.sent,
            lost_before: self.lost_before + other.lost_before,
            lost: self.lost + other.lost,
            lost_after: self.lost_after + other.lost_after,
            recovery_s: self.recovery_s.max(other.recovery_s),
            return_s: self.return_s.max(other.return_s),
            late: self.late + other.late,
            stale: self.stale + other.stale,
            doubled: self.doubled + other.doubled,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::NodeId;

    /// One packet each 50 ms from second 1,000 on.
    pub fn track(count: u16, is_lost: impl Fn(u64) -> bool) -> Track {
        let sent: Vec<f64> = (0..count).map(|number| 1_000.0 + f64::from(number) * 0.05).collect();
        let arrived = (0..u64::from(count)).filter(|number| !is_lost(*number)).map(|number| (number, 2_000));
        let route = Route { entry: NodeId::new(0), handling: NodeId::new(1), up: true, down: false };
        Track::new("x".to_owned(), route, &sent, arrived)
    }

    #[test]
    fn losses_are_assigned_by_their_time_of_sending() {
        let moments = Moments { from: 1_000.0, at: 1_002.0, repaired: 1_005.0 };
        let damage = track(200, |number| [5, 35, 37, 41, 60, 110].contains(&number)).damage(moments);
        assert_eq!(
            (damage.sent, damage.lost_before, damage.lost, damage.lost_after),
            (200, 2, 3, 1),
            "37 was in flight"
        );
        assert!((damage.recovery_s - 1.0).abs() < 1e-6, "{}", damage.recovery_s);
        assert!((damage.return_s - 0.5).abs() < 1e-6, "{}", damage.return_s);
        let early: Vec<f64> =
            track(200, |number| [5, 40].contains(&number)).lost_within(1_000.0, 1_002.0).collect();
        assert_eq!(early.len(), 1);
        assert!((early[0] - 1_000.25).abs() < 1e-6, "{early:?}");
        let later =
            track(200, |number| [5, 40].contains(&number)).damage(Moments { from: 1_000.27, ..moments });
        assert_eq!(
            (later.sent, later.lost_before, later.lost),
            (194, 0, 1),
            "what was sent earlier does not count"
        );
        for lost in [vec![], vec![38]] {
            let none = track(200, |number| lost.contains(&number)).damage(moments);
            assert_eq!(none.recovery_s.to_bits(), 0.0_f64.to_bits(), "lost before the failure");
        }
    }

    #[test]
    fn late_stale_and_duplicate_packets_are_counted_and_late_ones_are_lost() {
        let sent = [1.0, 2.0, 3.0, 4.0];
        let arrived = [(0, 900_000), (1, 1_100_000), (2, 11_000_000), (0, 5), (0, 5), (9, 5)];
        let route = Route { entry: NodeId::new(0), handling: NodeId::new(0), up: true, down: true };
        let track = Track::new("x".to_owned(), route, &sent, arrived.into_iter());
        assert_eq!((track.late, track.stale, track.doubled), (2, 1, 2));
        let there: Vec<bool> = track.packets.iter().map(|(_, is_there)| *is_there).collect();
        assert_eq!(there, [true, false, false, false]);
    }

    proptest! {
        #[test]
        fn every_packet_arrives_or_is_lost_in_one_of_three_periods(
            lost in prop::collection::btree_set(0_u64..300, 0..300), at in 0_u16..300, lasts in 0_u16..300,
        ) {
            let moment = |number: u16| 1_000.0 + f64::from(number) * 0.05 - 0.01;
            let moments = Moments { from: 0.0, at: moment(at), repaired: moment(at + lasts) };
            let damage = track(300, |number| lost.contains(&number)).damage(moments);
            prop_assert_eq!(damage.lost_before + damage.lost + damage.lost_after, lost.len() as u64);
            let meanwhile = u64::from(at).saturating_sub(4)..u64::from(at + lasts);
            let last = lost.iter().rfind(|number| meanwhile.contains(number));
            let expected = last.map_or(0.0, |number| (*number as f64 - f64::from(at)) * 0.05 + 0.01).max(0.0);
            prop_assert!((damage.recovery_s - expected).abs() < 1e-6);
        }
    }
}
