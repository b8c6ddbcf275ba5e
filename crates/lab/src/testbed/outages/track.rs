//! What became of the packets of one flow, and what an outage did to it: lost before, meanwhile and afterwards, and for how long.

use super::loads::Route;
use std::collections::BTreeMap;
use std::time::Duration;

/// What takes longer comes too late, and counts as lost: it waited for a node that was away.
pub const LATE: Duration = Duration::from_secs(1);

/// How long a packet may be under way, on a machine that is busy with other things: what was sent so shortly before an outage may have
/// met it.
pub const UNDER_WAY: Duration = Duration::from_millis(200);

/// What takes longer has waited in a node that was not to forward any more.
pub const STALE: Duration = Duration::from_secs(10);

/// A flow's packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// As the table calls it.
    pub name: String,
    /// Which nodes its packets meet.
    pub route: Route,
    /// When each packet was sent, as Unix time in seconds, ascending, and whether it arrived in time.
    pub packets: Vec<(f64, bool)>,
    /// Packets that arrived too late.
    pub late: u64,
    /// Of these, those that somebody kept for more than [`STALE`].
    pub stale: u64,
    /// Packets that arrived more than once.
    pub doubled: u64,
}

/// When it happened, and when it was undone, as Unix time in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// All loads ran. What was sent earlier does not count: its neighbours were unknown, or its other end was not there yet.
    pub from: f64,
    /// It happened.
    pub at: f64,
    /// It was undone.
    pub undone: f64,
}

impl Moments {
    /// The first moment of which a packet may be lost to what happened: a node that is killed takes with it what is in its queues.
    pub fn first_at_risk(self) -> f64 {
        self.at - UNDER_WAY.as_secs_f64()
    }
}

/// What an outage did to some flows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Damage {
    /// How many flows.
    pub flows: u64,
    /// Packets sent.
    pub sent: u64,
    /// Lost before it happened, and not under way when it did.
    pub lost_before: u64,
    /// Lost from then on until it was undone.
    pub lost: u64,
    /// Lost from then on.
    pub lost_after: u64,
    /// From when it happened to the last packet sent meanwhile that was lost, seconds; 0 if none was.
    pub recovery_s: f64,
    /// From when it was undone to the last packet that was lost, seconds; 0 if none was.
    pub return_s: f64,
    /// Packets that arrived too late.
    pub late: u64,
    /// Of these, those that somebody kept for more than [`STALE`].
    pub stale: u64,
    /// Packets that arrived more than once.
    pub doubled: u64,
}

impl Track {
    /// The packets of a flow: when each was sent, by its number, and which arrived, after how many microseconds.
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

    /// When packets of a stretch of time were sent that did not arrive in time, as Unix time in seconds.
    pub fn lost_within(&self, from: f64, to: f64) -> impl Iterator<Item = f64> + '_ {
        let lost = self.packets.iter().filter(|(_, is_there)| !is_there).map(|(at, _)| *at);
        lost.filter(move |at| (from..to).contains(at))
    }

    /// What an outage did to this flow.
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
            } else if *at < moments.undone {
                damage.lost += 1;
                damage.recovery_s = damage.recovery_s.max(at - moments.at);
            } else {
                damage.lost_after += 1;
                damage.return_s = damage.return_s.max(at - moments.undone);
            }
        }
        damage
    }
}

impl Damage {
    /// The same of more flows.
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
    fn losses_are_told_apart_by_when_they_were_sent() {
        let moments = Moments { from: 1_000.0, at: 1_002.0, undone: 1_005.0 };
        let damage = track(200, |number| [5, 35, 37, 41, 60, 110].contains(&number)).damage(moments);
        assert_eq!(
            (damage.sent, damage.lost_before, damage.lost, damage.lost_after),
            (200, 2, 3, 1),
            "37 was under way"
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
            assert_eq!(none.recovery_s.to_bits(), 0.0_f64.to_bits(), "over before it was felt");
        }
    }

    #[test]
    fn late_stale_and_doubled_packets_are_counted_and_only_those_in_time_arrived() {
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
        fn every_packet_that_is_sent_arrives_or_is_lost_in_one_of_three_times(
            lost in prop::collection::btree_set(0_u64..300, 0..300), at in 0_u16..300, lasts in 0_u16..300,
        ) {
            let moment = |number: u16| 1_000.0 + f64::from(number) * 0.05 - 0.01;
            let moments = Moments { from: 0.0, at: moment(at), undone: moment(at + lasts) };
            let damage = track(300, |number| lost.contains(&number)).damage(moments);
            prop_assert_eq!(damage.lost_before + damage.lost + damage.lost_after, lost.len() as u64);
            let meanwhile = u64::from(at).saturating_sub(4)..u64::from(at + lasts);
            let last = lost.iter().rfind(|number| meanwhile.contains(number));
            let expected = last.map_or(0.0, |number| (*number as f64 - f64::from(at)) * 0.05 + 0.01).max(0.0);
            prop_assert!((damage.recovery_s - expected).abs() < 1e-6);
        }
    }
}
