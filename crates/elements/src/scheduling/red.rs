//! `RED`.

use crate::side_output::SideOutput;
use crate::values::Probability;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, Element, Frame, HandlerId, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;
use std::time::Duration;

/// While queues are empty, the average decays as if a packet arrived at this interval.
const IDLE_STEP: Duration = Duration::from_millis(1);

element! {
    /// Drops packets before queues are full: random early detection (Floyd, Jacobson, ToN 1(4), 1993), in its gentle
    /// form. It averages the length of the nearest queues: those that it pushes to, or those that it pulls from. Below
    /// the lower threshold it drops nothing. From there to the upper threshold the probability rises to `MAX_P`, and
    /// from there to twice the upper threshold to 1. If output 1 is connected, packets go there instead of being
    /// dropped. Its random numbers are the same in every run.
    pub struct RED as "RED" { early: EarlyDrop, side: SideOutput, drops: u64, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "Accepted packets.", push "dropped" [Optional]: "The other packets; dropped if unconnected.", }
    params REDParams {
        /// The average, in packets, up to which nothing is dropped.
        min_thresh: u32,
        /// The average from which the probability rises faster.
        max_thresh: u32,
        /// The probability at `MAX_THRESH`.
        max_p: Probability,
        /// How slowly the average follows: the weight of a packet is 2 to the power of minus this. 4 is Click's
        /// default; Floyd and Jacobson recommend 9.
        stability: u8 = 4,
    }
    example { "5", "50", "0.02", }
    drops { EARLY = "early_drop": "The average queue length is too high.", }
    handlers {
        read AVERAGE = "avg_queue_size": "Average queue length in packets.",
        read DROPS = "drops": "Packets dropped, or sent to output 1.",
        read MIN = "min_thresh": "The lower threshold.",
        read MAX = "max_thresh": "The upper threshold.",
        read MAX_P = "max_p": "The probability at the upper threshold.",
        write SET_MIN = "min_thresh": "Sets the lower threshold.",
        write SET_MAX = "max_thresh": "Sets the upper threshold.",
        write SET_MAX_P = "max_p": "Sets the probability.",
    }
    hooks { Watches, }
    binds { side, }
    keeps { early.average, drops, }
}

/// The drop probability as a function of the average.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DropCurve {
    min: u32,
    max: u32,
    max_p: f64,
    weight: f64,
}

impl DropCurve {
    fn checked(self) -> Result<Self, String> {
        if self.min < self.max {
            Ok(self)
        } else {
            Err(format!("MIN_THRESH {} is not below MAX_THRESH {}", self.min, self.max))
        }
    }

    /// The probability at an average.
    fn probability(self, average: f64) -> f64 {
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        if average <= min {
            0.0
        } else if average <= max {
            self.max_p * (average - min) / (max - min)
        } else {
            (self.max_p + (1.0 - self.max_p) * (average - max) / max).min(1.0)
        }
    }
}

#[derive(Debug)]
struct EarlyDrop {
    law: DropCurve,
    average: f64,
    /// When the queues were last found empty, if no packet has come since.
    empty_at: Option<Duration>,
    /// Packets since the last drop.
    since: u32,
    /// The random number that determines the next interval.
    chance: f64,
    random: SmallRng,
}

impl EarlyDrop {
    fn new(law: DropCurve) -> Self {
        let mut random = SmallRng::seed_from_u64(0);
        Self { law, average: 0.0, empty_at: None, since: 0, chance: random.random(), random }
    }

    fn average(&mut self, length: usize, now: Duration) {
        if length > 0 {
            self.empty_at = None;
            self.average += (length as f64 - self.average) * self.law.weight;
            return;
        }
        let idle = self.empty_at.replace(now).map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let steps = i32::try_from(idle.as_nanos() / IDLE_STEP.as_nanos()).unwrap_or(i32::MAX);
        self.average *= (1.0 - self.law.weight).powi(steps.max(1));
    }

    /// Whether to drop a packet that arrives at queues of this length. The interval between drops is uniform up to one
    /// over the probability, so that drops neither cluster nor spare a flow.
    fn drops(&mut self, length: usize, now: Duration) -> bool {
        self.average(length, now);
        let probability = self.law.probability(self.average);
        if probability <= 0.0 {
            self.since = 0;
            return false;
        }
        self.since = self.since.saturating_add(1);
        let drops = f64::from(self.since) * probability > self.chance || probability >= 1.0;
        if drops {
            (self.since, self.chance) = (0, self.random.random());
        }
        drops
    }
}

impl RED {
    /// Processes the packets of `batch` from `start` on. `length` computes the queue length that a packet finds from
    /// how many were seen and how many of them passed.
    fn process(
        &mut self,
        batch: &mut SlotList,
        start: usize,
        out: &mut Out<'_>,
        length: impl Fn(usize, usize) -> usize,
    ) {
        let (mut seen, mut passed) = (0, 0);
        batch.filter_map_from(start, |slot| {
            let drops = self.early.drops(length(seen, passed), out.now());
            seen += 1;
            if drops {
                self.drops += 1;
                self.side.send(slot, Self::EARLY, out);
                return None;
            }
            passed += 1;
            Some(slot)
        });
    }
}

impl Class for RED {
    fn make(params: REDParams) -> Result<Self, String> {
        let REDParams { min_thresh: min, max_thresh: max, max_p: Probability(max_p), stability } = params;
        if stability > 31 {
            return Err(format!("STABILITY is below 32, not {stability}"));
        }
        let law = DropCurve { min, max, max_p, weight: 0.5f64.powi(stability.into()) }.checked()?;
        Ok(Self { early: EarlyDrop::new(law), side: SideOutput::default(), drops: 0 })
    }
}

impl Control for RED {
    fn read(&self, handler: HandlerId) -> String {
        let law = self.early.law;
        match handler {
            Self::AVERAGE => format!("{:.3}", self.early.average),
            Self::DROPS => self.drops.to_string(),
            Self::MIN => law.min.to_string(),
            Self::MAX => law.max.to_string(),
            _ => law.max_p.to_string(),
        }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let wrong = || HandlerError::Value(format!("out of range: {value:?}"));
        let mut law = self.early.law;
        match handler {
            Self::SET_MIN => law.min = u32::read(value.trim()).ok_or_else(wrong)?,
            Self::SET_MAX => law.max = u32::read(value.trim()).ok_or_else(wrong)?,
            _ => law.max_p = Probability::read(value).ok_or_else(wrong)?.0,
        }
        self.early.law = law.checked().map_err(HandlerError::Value)?;
        Ok(())
    }
}

impl<P: PacketBuf + 'static> Element<P> for RED {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        let kept = out.kept();
        self.process(batch, 0, out, |_, passed| kept + passed);
        out.all(0, batch);
    }

    fn pull(
        &mut self,
        output: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if output > 0 {
            return;
        }
        let start = into.len();
        let came = upstream.pull(0, want, into, frame, out);
        let kept = out.kept();
        self.process(into, start, out, |seen, _| kept + came - seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Uniform numbers from 1 to n have a mean of (n + 1) / 2, where n is one over the probability.
        #[test]
        fn the_share_of_drops_at_an_average_is_that_of_the_formula(
            min in 0..50u32, width in 1..50u32, max_p in 0.01..1.0, length in 1..200usize,
        ) {
            let law = DropCurve { min, max: min + width, max_p, weight: 1.0 };
            let probability = match length as f64 {
                few if few <= f64::from(min) => 0.0,
                some if some <= f64::from(min + width) => max_p * (some - f64::from(min)) / f64::from(width),
                many => (max_p + (1.0 - max_p) * (many / f64::from(min + width) - 1.0)).min(1.0),
            };
            prop_assert!((law.probability(length as f64) - probability).abs() < 1e-9);
            let mut early = EarlyDrop::new(law);
            let packets = 40_000;
            let drops = (0..packets).filter(|_| early.drops(length, Duration::ZERO)).count();
            // Of whole numbers those up to one over the probability, rounded up, are drawn: the last with less weight.
            let mut expected = 0.0;
            if probability > 0.0 {
                let most = (1.0 / probability).ceil();
                let whole: f64 = (1..packets).map(f64::from).take_while(|gap| *gap < most).map(|gap| gap * probability).sum();
                expected = f64::from(packets) / (whole + most * (1.0 - (most - 1.0) * probability));
            }
            let error = (drops as f64 - expected).abs();
            prop_assert!(error <= 1.0 + 5.0 * expected.sqrt(), "{drops} drops where {expected} are expected");
        }

        /// The reference model sums the weights of all lengths that packets found.
        #[test]
        fn the_average_is_a_sum_of_weighted_lengths(lengths in prop::collection::vec(1..100usize, 1..50), stability in 0..10i32) {
            let weight = 0.5f64.powi(stability);
            let mut early = EarlyDrop::new(DropCurve { min: 500, max: 600, max_p: 0.5, weight });
            for &length in &lengths {
                early.average(length, Duration::ZERO);
            }
            let weights = (0..).map(|age| weight * (1.0 - weight).powi(age));
            let sum: f64 = lengths.iter().rev().zip(weights).map(|(&length, weight)| length as f64 * weight).sum();
            prop_assert!((early.average - sum).abs() < 1e-9);
        }
    }

    #[test]
    fn empty_queues_let_the_average_fall_by_time() {
        let mut early = EarlyDrop::new(DropCurve { min: 5, max: 10, max_p: 1.0, weight: 0.5 });
        let ms = Duration::from_millis;
        early.average(64, ms(0));
        early.average(0, ms(1));
        early.average(0, ms(4));
        assert!((early.average - 2.0).abs() < 1e-9);
    }

    #[test]
    fn it_watches_the_queue_that_it_pushes_to() {
        let fill = |builder: &mut scalebricks_graph::Builder<scalebricks_io::Packet>| {
            builder.declare("r", "RED", &["10", "20", "1", "STABILITY 0"]).declare("q", "Queue", &[]);
            builder.declare("u", "Unqueue", &["ACTIVE false"]).chain(&["in", "r", "q", "u", "out0"]);
            builder.connect("r", 1, "out1", 0);
        };
        let mut rig = Rig::new(2, fill);
        rig.send((0..8).map(|n| [n]));
        rig.turn();
        rig.replace(fill);
        rig.send((8..50).map(|n| [n]));
        rig.turn();
        // From 40 packets on, all others would be dropped; the chance is one from 20 on.
        let (length, drops) = (rig.number("q", "length"), rig.number("r", "drops"));
        assert!((11..=20).contains(&length) && length + drops == 50, "{length} of 50, {drops} dropped");
        assert_eq!((rig.got(1).len() as u64, rig.number("r", "early_drop")), (drops, 0));
    }

    #[test]
    fn it_watches_the_queue_that_it_pulls_from() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("r", "RED", &["10", "20", "1", "STABILITY 0"]).declare("q", "Queue", &[]);
            builder.declare("u", "Unqueue", &["BURST 5"]).chain(&["in", "q", "r", "u", "out0"]);
        });
        rig.send((0..60).map(|n| [n]));
        (0..20).for_each(|_| {
            rig.turn();
        });
        let heads = rig.heads(0);
        // Of the first 40, each finds 20 packets or more, itself among them; the last 10 find ten at most.
        assert!(
            heads.iter().all(|&head| head > 40) && heads.ends_with(&[50, 51, 52, 53, 54, 55, 56, 57, 58, 59])
        );
        assert_eq!(rig.number("r", "early_drop"), 60 - heads.len() as u64);
    }

    #[test]
    fn thresholds_ascend_and_can_be_changed() {
        let made = |args: &[&str]| {
            Rig::with_buffers(9, 1, |builder| {
                builder.declare("r", "RED", args).chain(&["in", "r", "out0"]);
            })
        };
        let mut rig = made(&["5", "50", "0.02"]).unwrap();
        for (handler, right, wrong) in
            [("min_thresh", "9", "50"), ("max_thresh", "10", "9"), ("max_p", "0.5", "1.5")]
        {
            rig.write("r", handler, right).unwrap();
            assert!(rig.write("r", handler, wrong).is_err());
            assert_eq!(rig.read("r", handler), right);
        }
        assert!(made(&["5", "5", "0.1"]).is_err() && made(&["5", "6", "2"]).is_err());
    }
}
