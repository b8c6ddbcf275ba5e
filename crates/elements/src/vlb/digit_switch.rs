//! `DigitSwitch`.

use crate::fabric::mac::RouterMac;
use crate::gateway::DropReason;
use crate::split::{Destination, split};
use scalebricks_graph::{Class, Control, Element, Frame, Out, SLOTS, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet;

element! {
    /// Moves frames through a stage of a k-ary n-fly by their destination address alone (RouteBricks §3.3): to the
    /// output whose number is one digit of the output node's number. After all n digits a frame is at its output node.
    pub struct DigitSwitch as "DigitSwitch" { radix: usize, place: usize, }
    inputs { push "in": "Frames with encoded addresses.", }
    outputs { push "digit" [OneOrMore]: "Frames to output nodes with this digit.", }
    params DigitSwitchParams {
        /// The radix k of the fly, from 2 on.
        radix: u16,
        /// Which digit of the output node's number, from 0, the lowest.
        digit: u32,
    }
    example { "2", "0", }
    drops { BAD_MAC = DropReason::BadFabricMac, }
    counters { MOVED = "moved": "Frames moved to the link to their output node.", }
}

impl Class for DigitSwitch {
    fn make(params: DigitSwitchParams) -> Result<Self, String> {
        let DigitSwitchParams { radix, digit } = params;
        let radix = usize::from(radix);
        match radix.checked_pow(digit) {
            Some(place) if radix >= 2 && place <= 256 => Ok(Self { radix, place }),
            _ => Err(format!("digit {digit} to radix {radix}: node numbers are below 256")),
        }
    }
}

impl Control for DigitSwitch {}

impl<P: PacketBuf> Element<P> for DigitSwitch {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut ways = [Destination::Drop(Self::BAD_MAC); SLOTS];
        let mut moved = 0;
        for (way, slot) in ways.iter_mut().zip(batch.iter()) {
            let mac = ethernet::destination(frame.packet(slot).data()).and_then(RouterMac::decode);
            let Some(mac) = mac else { continue };
            moved += 1;
            *way = Destination::Out((mac.output_node.index() / self.place % self.radix) as u16); // below the radix
        }
        let count = batch.len();
        split(batch, &ways[..count], out);
        out.count(Self::MOVED, moved);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::steer::rig::frame;
    use crate::rig::Rig;

    #[test]
    fn a_digit_of_the_output_node_decides() {
        let built = |args: &[&str]| {
            Rig::with_buffers(50, 3, |builder| {
                builder.declare("v", "DigitSwitch", args).chain(&["in", "v", "out0"]);
                builder.connect("v", 1, "out1", 0).connect("v", 2, "out2", 0);
            })
        };
        for (digit, expected) in [("0", [5, 4, 4]), ("1", [6, 4, 3]), ("2", [9, 4, 0])] {
            let mut rig = built(&["3", digit]).unwrap();
            rig.send((0..13).map(frame));
            rig.send([vec![1, 2, 3]]);
            rig.turn();
            assert_eq!([0, 1, 2].map(|end| rig.got(end).len()), expected, "digit {digit}");
            assert_eq!((rig.number("v", "moved"), rig.number("v", "bad_fabric_mac")), (13, 1));
        }
        for wrong in [&["1", "0"][..], &["0", "0"], &["16", "3"], &["2", "9"], &["300", "4000000"]] {
            assert!(built(wrong).is_err(), "{wrong:?}");
        }
    }
}
