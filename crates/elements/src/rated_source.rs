//! `RatedSource`.

use crate::gate::{Gate, gated};
use crate::infinite_source::{DATA, make};
use crate::pace::Pace;
use crate::shared_names::counters;
use crate::values::Data;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Element, Frame, HandlerId, Out, Supply, Upstream};
use scalebricks_io::PacketBuf;
use std::any::Any;

/// The burst after a pause: the packets of a tenth of a second.
const BURSTS_A_SECOND: u64 = 10;

gated! {
    /// Makes packets at a rate. It catches up on up to a tenth of a second; more is lost. It pauses while an element
    /// downstream raises back-pressure.
    pub struct RatedSource as "RatedSource" {
        data: Vec<u8>, pace: Pace, stop: bool,
        // Whether it has had a turn; packets are due from then on.
        has_begun: bool,
    }
    outputs { push "out": "Packets.", }
    params RatedSourceParams {
        /// The contents of each packet.
        data: Data = Data(DATA.into()),
        /// Packets per second.
        rate: u32 = 10,
        /// Total number of packets; unlimited if negative.
        limit: i64 = -1,
        /// Whether it is active from the start.
        active: bool = true,
        /// Whether the run may end when the limit is reached. Click's default is `false`.
        stop: bool = false,
    }
    counters {
        MADE = counters::MADE [Made],
        NO_BUFFER = counters::NO_BUFFER_FOR_DATA,
    }
    handlers {
        reset "reset",
        read RATE = "rate": "Packets per second.",
        write SET_RATE = "rate": "Sets the packets per second.",
    }
    makes |RatedSourceParams { data: Data(data), rate, limit, active, stop }| {
        let pace = Pace::with_bursts(rate.into(), BURSTS_A_SECOND);
        Self { gate: Gate::new(active, limit), data, pace, stop, has_begun: false }
    },
}

impl Control for RatedSource {
    fn read(&self, handler: HandlerId) -> String {
        if handler == Self::RATE { self.pace.per_second().to_string() } else { self.read_gate(handler) }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        if handler == Self::SET_RATE {
            self.pace.write::<u32>(value)
        } else {
            self.write_gate(handler, value)
        }
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.gate.take_over(before.gate);
        self.has_begun = before.has_begun;
        self.pace = before.pace.at_rate_of(&self.pace);
    }
}

impl<P: PacketBuf> Element<P> for RatedSource {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.pace.empty(out.now());
        }
        let due = self.pace.due(out.now());
        if out.is_blocked() {
            return;
        }
        let want = due.min(self.gate.left()).min(out.intake(frame.used()));
        let made = make(&self.data, want, frame, out);
        out.count(Self::NO_BUFFER, u64::from(made.is_err()));
        let (Ok(made) | Err(made)) = made;
        out.count(Self::MADE, made);
        self.gate.pass(made);
        self.pace.spend(made);
    }

    fn supply(&self) -> Option<Supply> {
        self.gate.supply(self.stop)
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use std::time::Duration;

    fn rig(args: &[&str]) -> Rig {
        Rig::new(1, |builder| {
            builder
                .declare("s", "RatedSource", args)
                .declare("idle", "Idle", &[])
                .chain(&["s", "out0"])
                .chain(&["in", "idle"]);
        })
    }

    #[test]
    fn it_makes_as_many_as_its_rate_says_whatever_the_turns() {
        for (turn_us, turns) in [(1, 1_000_000u64), (333, 3_003), (10_000, 100)] {
            let mut rig = rig(&["RATE 2500"]);
            rig.turn();
            for _ in 0..turns {
                rig.turn_after(Duration::from_micros(turn_us));
            }
            assert_eq!(
                rig.number("s", "count"),
                turn_us * turns * 2_500 / 1_000_000,
                "turns of {turn_us} us"
            );
        }
    }

    #[test]
    fn a_long_pause_is_caught_up_with_for_a_tenth_of_a_second() {
        let mut rig = rig(&["x", "1000", "LIMIT 150"]);
        rig.turn();
        rig.turn_after(Duration::from_secs(10));
        assert_eq!(rig.got(0).len(), 100);
        rig.write("s", "rate", "20").unwrap();
        rig.turn_after(Duration::from_millis(50));
        assert_eq!((rig.got(0).len(), rig.read("s", "rate")), (1, "20".into()));
        rig.write("s", "rate", "4000").unwrap();
        rig.turn_after(Duration::from_millis(90));
        assert_eq!((rig.got(0).len(), rig.number("s", "count")), (49, 150));
        rig.write("s", "active", "false").unwrap();
        rig.write("s", "reset", "").unwrap();
        rig.turn_after(Duration::from_secs(1));
        assert_eq!(rig.got(0).len(), 0);
        assert!(rig.write("s", "rate", "fast").is_err());
    }
}
