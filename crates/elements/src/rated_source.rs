//! `RatedSource`.

use crate::handler::{boolean, left};
use crate::infinite_source::{DATA, make};
use scalebricks_graph::args::Bytes;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{
    Class, Control, Element, Frame, HandlerId, Lanes, Out, Spec, State, Upstream, element,
};
use scalebricks_io::PacketBuf;
use std::time::Duration;

const SECOND_NS: u128 = 1_000_000_000;

element! {
    /// Makes so many packets a second. What it could not make for up to a tenth of a second, it makes later; more is
    /// lost to the rate. While an element behind it asks for nothing new, it makes none.
    #[derive(Debug)]
    pub struct RatedSource as "RatedSource" {
        data: Vec<u8>, rate: u32, limit: i64, is_active: bool, count: u64,
        // The time up to which packets were made, once the first turn is known.
        made_up_to: Option<Duration>,
        // Billionths of packets that are due.
        due: u128,
    }
    outputs { push "out": "Packets.", }
    params RatedSourceParams {
        /// What is in each.
        data: Bytes = Bytes(DATA.into()),
        /// Packets a second.
        rate: u32 = 10,
        /// Packets in all; without end if below 0.
        limit: i64 = -1,
        /// Whether it makes packets from the start.
        active: bool = true,
    }
    counters {
        MADE = "made" [Made]: "Packets made.",
        NO_BUFFER = "no_buffer": "Turns in which no buffer was free, or the data does not fit one.",
    }
    handlers {
        read COUNT = "count": "Packets made since the last reset.",
        read RATE = "rate": "Packets a second.",
        read ACTIVE = "active": "Whether it makes packets.",
        write SET_RATE = "rate": "Sets the packets a second.",
        write SET_ACTIVE = "active": "Starts it or stops it.",
        write RESET = "reset": "Sets `count` to 0, and so begins the limit anew.",
    }
    hooks { Begin, }
}

impl Class for RatedSource {
    const SPEC: &'static Spec = Self::SPEC;
    type Params = RatedSourceParams;

    fn make(params: RatedSourceParams) -> Result<Self, String> {
        let RatedSourceParams { data: Bytes(data), rate, limit, active } = params;
        Ok(Self { data, rate, limit, is_active: active, count: 0, made_up_to: None, due: 0 })
    }
}

impl Control for RatedSource {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }

    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::COUNT => self.count.to_string(),
            Self::RATE => self.rate.to_string(),
            _ => self.is_active.to_string(),
        }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        match handler {
            Self::RESET => self.count = 0,
            Self::SET_RATE => {
                self.rate =
                    value.trim().parse().map_err(|_| HandlerError::Value(format!("no rate: {value:?}")))?;
            }
            _ => self.is_active = boolean(value)?,
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Option<State> {
        Some(Box::new((self.count, self.made_up_to, self.due)))
    }

    fn take_over(&mut self, state: State) -> Result<(), State> {
        (self.count, self.made_up_to, self.due) = *state.downcast()?;
        Ok(())
    }
}

impl<P: PacketBuf> Element<P> for RatedSource {
    fn push(&mut self, _: usize, _: &mut Lanes, _: &mut Frame<P>, _: &mut Out<'_>) {}

    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let passed = out.now().saturating_sub(self.made_up_to.replace(out.now()).unwrap_or(out.now()));
        if !self.is_active {
            return;
        }
        let most = (u128::from(self.rate) * SECOND_NS / 10).max(SECOND_NS);
        self.due = (self.due + passed.as_nanos() * u128::from(self.rate)).min(most);
        if out.is_blocked() {
            return;
        }
        let due = usize::try_from(self.due / SECOND_NS).unwrap_or(usize::MAX);
        let want = due.min(left(self.limit, self.count)).min(out.intake(frame.used()));
        let made = make(&self.data, want, frame, out);
        out.count(Self::NO_BUFFER, u64::from(made.is_err()));
        let (Ok(made) | Err(made)) = made;
        out.count(Self::MADE, made);
        self.count += made;
        self.due -= u128::from(made) * SECOND_NS;
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
