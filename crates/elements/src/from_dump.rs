//! `FromDump`.

use crate::capture_source::CaptureSource;
use crate::gate::{Gate, gated};
use crate::shared_names::{counters, drops, handlers};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Element, Environment, Frame, HandlerId, Out, Supply, Upstream};
use scalebricks_io::PacketBuf;
use std::any::Any;

gated! {
    /// Reads packets from a capture file, pcap or pcapng, plain or gzipped, as Ethernet, and records whether they were
    /// broadcast or multicast. In a run over captures each packet arrives at the file's time stamp, which is the clock
    /// of the whole graph.
    pub struct FromDump as "FromDump" {
        file: String, timing: bool, stop: bool, bytes: u64, frames: Option<CaptureSource>,
    }
    outputs { push "out": "Packets.", }
    params FromDumpParams {
        /// The file.
        filename: String,
        /// In a run by the wall clock, whether packets keep the pace of the capture. Otherwise they come as fast as the
        /// graph takes them.
        timing: bool = false,
        /// Whether the run may end with the file. It ends once all files with this option have ended. Click's default
        /// is `false`.
        stop: bool = true,
        /// Whether it is active from the start.
        active: bool = true,
    }
    drops { TOO_LONG = drops::LONG_FRAME, }
    counters {
        UNSUPPORTED = "unsupported": "Frames whose link type cannot be converted to Ethernet: a level.",
        NO_BUFFER = counters::NO_BUFFER,
    }
    handlers {
        reset "reset_counts",
        read BYTES = "byte_count": "Bytes of the packets since the last reset.",
        read FILENAME = handlers::FILENAME,
    }
    makes |FromDumpParams { filename: file, timing, stop, active }| Self {
        gate: Gate::new(active, -1), file, timing, stop, bytes: 0, frames: None,
    },
}

impl Control for FromDump {
    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::BYTES => self.bytes.to_string(),
            Self::FILENAME => self.file.clone(),
            _ => self.read_gate(handler),
        }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        if handler == Self::RESET {
            self.bytes = 0;
        }
        self.write_gate(handler, value)
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.gate.take_over(before.gate);
        self.bytes = before.bytes;
        if self.frames.is_none() && before.file == self.file {
            self.frames = before.frames.take();
        }
    }
}

impl<P: PacketBuf> Element<P> for FromDump {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.gate.is_active() || out.is_blocked() {
            return;
        }
        let Some(frames) = &mut self.frames else { return };
        let brought = frames.bring(out.intake(frame.used()), Self::TOO_LONG, frame, out);
        out.set(Self::UNSUPPORTED, frames.unsupported);
        out.count(Self::NO_BUFFER, u64::from(brought.had_no_buffer));
        self.gate.pass(brought.packets);
        self.bytes += brought.bytes;
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        let reader = world.read(self.file.as_ref())?;
        self.frames = Some(CaptureSource::new(reader, world.clock(), self.timing));
        Ok(())
    }

    fn supply(&self) -> Option<Supply> {
        let supply = match &self.frames {
            Some(frames) if self.gate.is_active() => frames.supply(),
            _ => Supply::Ended,
        };
        (self.stop || supply != Supply::Ended).then_some(supply)
    }

    fn fault(&self) -> Option<String> {
        let fault = self.frames.as_ref()?.fault()?;
        Some(format!("{}: {fault}", self.file))
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::test_environment::{TestEnvironment, capture};
    use scalebricks_graph::{Clock, Supply};
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    fn rig(args: &[&str]) -> Rig {
        Rig::with_buffers(50, 1, |builder| {
            builder.declare("f", "FromDump", args).declare("idle", "Idle", &[]);
            builder.chain(&["f", "out0"]).chain(&["in", "idle"]);
        })
        .unwrap()
    }

    fn supply(rig: &Rig) -> Option<Supply> {
        rig.worker.graph().supply()
    }

    #[test]
    fn packets_come_when_the_clock_of_the_captures_says() {
        let stamps = [5 * SECOND, 5 * SECOND, 5 * SECOND + 7, 4 * SECOND];
        let frames: Vec<_> = stamps.iter().zip(0..).map(|(&at, n)| (at, vec![n; 20])).collect();
        let (_folder, path) = capture(&frames);
        let mut rig = rig(&[path.to_str().unwrap()]);
        assert_eq!(supply(&rig), Some(Supply::Ended), "it is not open");
        rig.open(&mut TestEnvironment::new(Clock::Captures)).unwrap();
        assert_eq!(supply(&rig), Some(Supply::At(Duration::from_secs(5))));
        rig.turn_at(Duration::from_secs(5) - Duration::from_nanos(1));
        assert_eq!(rig.heads(0), []);
        rig.turn_at(Duration::from_secs(5));
        assert_eq!(rig.heads(0), [0, 1]);
        assert_eq!(supply(&rig), Some(Supply::At(Duration::from_nanos(5 * SECOND + 7))));
        rig.turn_at(Duration::from_nanos(5 * SECOND + 7));
        assert_eq!(rig.heads(0), [2, 3], "one that is older than that before it comes with it");
        assert_eq!((rig.number("f", "count"), rig.number("f", "byte_count")), (4, 80));
        assert_eq!((supply(&rig), rig.worker.graph().faults().count()), (Some(Supply::Ended), 0));
    }

    #[test]
    fn by_the_wall_clock_they_come_at_once_or_at_their_own_pace() {
        let frames: Vec<_> = (0..3).map(|n| (77 * SECOND + u64::from(n) * SECOND, vec![n])).collect();
        let (_folder, path) = capture(&frames);
        let path = path.to_str().unwrap();
        let mut at_once = rig(&[path, "STOP false"]);
        at_once.open(&mut TestEnvironment::new(Clock::Wall)).unwrap();
        at_once.turn();
        assert_eq!((at_once.heads(0), supply(&at_once)), (vec![0, 1, 2], None));
        let mut paced = rig(&[path, "TIMING true", "ACTIVE false"]);
        paced.open(&mut TestEnvironment::new(Clock::Wall)).unwrap();
        paced.turn_at(Duration::from_secs(9));
        assert_eq!((paced.heads(0), supply(&paced)), (vec![], Some(Supply::Ended)));
        paced.write("f", "active", "true").unwrap();
        for (turn, heads) in [(10_000, vec![0]), (10_999, vec![]), (11_000, vec![1]), (99_000, vec![2])] {
            paced.turn_at(Duration::from_millis(turn));
            assert_eq!(paced.heads(0), heads, "{turn} ms");
        }
    }

    #[test]
    fn it_goes_on_in_a_new_graph_and_tells_of_a_broken_file() {
        let mut frames: Vec<_> = (0..40).map(|n| (u64::from(n), vec![n])).collect();
        frames.insert(1, (0, vec![99; 5_000]));
        let (_folder, path) = capture(&frames);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let args = [path.to_str().unwrap()];
        let mut rig = rig(&args);
        rig.open(&mut TestEnvironment::new(Clock::Captures)).unwrap();
        rig.turn_at(Duration::from_nanos(4));
        rig.replace(|builder| {
            builder.declare("f", "FromDump", &args).declare("idle", "Idle", &[]);
            builder.chain(&["f", "out0"]).chain(&["in", "idle"]);
        });
        rig.turn_at(Duration::from_nanos(100));
        assert_eq!(rig.heads(0), (0..39).collect::<Vec<u8>>());
        assert_eq!((rig.number("f", "too_long"), supply(&rig)), (1, Some(Supply::Ended)));
        let faults: Vec<(&str, String)> = rig.worker.graph().faults().collect();
        assert!(
            faults[0].0 == "f" && faults[0].1.ends_with("the file ends in the middle of it"),
            "{faults:?}"
        );
        let mut absent = self::rig(&["/there/is/none.pcap"]);
        let failed = absent.open(&mut TestEnvironment::new(Clock::Captures)).unwrap_err();
        assert!(failed[0].1.contains("/there/is/none.pcap"), "{failed:?}");
    }
}
