//! `RandomSwitch`.

use crate::fabric::picker::Picker;
use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends each packet to an output drawn uniformly. It splits flows, so it may reorder them. In the first n stages of
    /// a k-ary n-fly it is phase 1 of Valiant load balancing: n random hops lead to a node drawn uniformly.
    pub struct RandomSwitch as "RandomSwitch" { random: Picker, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "A random subset of the packets.", }
    params RandomSwitchParams {
        /// Seed of the random choices.
        seed: u64 = 0,
    }
    keeps { random, }
    makes |RandomSwitchParams { seed }| Self { random: Picker::of_node(0, seed) },
}

impl Control for RandomSwitch {}

impl<P: PacketBuf> Element<P> for RandomSwitch {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        let outputs = out.outputs();
        for slot in batch.drain() {
            out.push(self.random.below(outputs), slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    fn counts(seed: &str) -> Vec<Vec<Vec<u8>>> {
        let mut rig = Rig::new(3, |builder| {
            builder.declare("s", "RandomSwitch", &[seed]).chain(&["in", "s", "out0"]);
            builder.connect("s", 1, "out1", 0).connect("s", 2, "out2", 0);
        });
        for _ in 0..30 {
            rig.send((0..100).map(|n| [n]));
            rig.turn();
        }
        (0..3).map(|end| rig.got(end)).collect()
    }

    #[test]
    fn packets_spread_evenly_and_the_same_for_one_seed() {
        let got = counts("7");
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 3_000);
        assert!(got.iter().all(|packets| (900..1_100).contains(&packets.len())));
        assert_eq!(got, counts("7"));
        assert_ne!(got, counts("8"));
    }
}
