//! `ToDump`.

use crate::recorder::Recorder;
use crate::shared_names::handlers;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{
    Binder, Class, Control, CounterId, Element, Environment, Frame, HandlerId, Out, Slot, SlotList, Upstream,
    element,
};
use scalebricks_io::{BURST, PacketBuf};
use std::any::Any;

element! {
    /// Writes packets to a capture file, with the worker's clock in nanoseconds, and passes them on if its output is
    /// connected. Otherwise they end here; with a pull input, it then takes up to one burst per turn. The file name
    /// ends in `.pcap` or `.pcapng`; a further `.gz` compresses the file.
    pub struct ToDump as "ToDump" {
        file: String, snaplen: usize, passes_on: bool, batch: SlotList, recorder: Option<Recorder>,
    }
    inputs { agnostic "in": "Packets to write.", }
    outputs { agnostic "out" [Optional]: "The same.", }
    params ToDumpParams {
        /// The file.
        filename: String,
        /// Bytes of a packet that are written; all if 0. Click's default is 2000.
        snaplen: usize = 0,
        /// The type of packets. Only `ETHER` is supported.
        encap: String = "ETHER".into(),
    }
    counters {
        WRITTEN = "written": "Packets written.",
        FAILED = "not_written": "Packets that could not be written.",
    }
    handlers {
        read COUNT = "count": "Packets written.",
        read FILENAME = handlers::FILENAME,
    }
    hooks { Pulls, }
}

impl ToDump {
    const COUNTED: [CounterId; 2] = [Self::WRITTEN, Self::FAILED];

    fn record<P: PacketBuf>(&mut self, slots: &[Slot], frame: &Frame<P>, out: &Out<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(slots, self.snaplen, frame, out, Self::COUNTED);
        }
    }
}

impl Class for ToDump {
    fn make(params: ToDumpParams) -> Result<Self, String> {
        let ToDumpParams { filename: file, snaplen, encap } = params;
        if encap != "ETHER" {
            return Err(format!("ENCAP {encap}: only ETHER is supported"));
        }
        let batch = SlotList::new();
        Ok(Self { file, snaplen, passes_on: false, batch, recorder: None })
    }
}

impl Control for ToDump {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.passes_on = binder.is_connected(0);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::COUNT => self.recorder.as_ref().map_or(0, |recorder| recorder.written).to_string(),
            _ => self.file.clone(),
        }
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if self.recorder.is_none() && before.file == self.file {
            self.recorder = before.recorder.take();
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for ToDump {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.record(batch.as_slice(), frame, out);
        if self.passes_on {
            out.all(0, batch);
        } else {
            batch.drain().for_each(|slot| drop(frame.take(slot)));
        }
    }

    fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if self.passes_on {
            return;
        }
        upstream.pull(0, BURST.min(out.intake(frame.used())), &mut self.batch, frame, out);
        if let Some(recorder) = &mut self.recorder {
            recorder.write(self.batch.as_slice(), self.snaplen, frame, out, Self::COUNTED);
        }
        self.batch.drain().for_each(|slot| drop(frame.take(slot)));
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.recorder = Some(Recorder::new(world.write(self.file.as_ref())?));
        Ok(())
    }

    fn fault(&self) -> Option<String> {
        Some(format!("{}: {}", self.file, self.recorder.as_ref()?.fault()?))
    }

    fn pull(
        &mut self,
        _: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let start = into.len();
        upstream.pull(0, want, into, frame, out);
        self.record(into.as_slice().get(start..).unwrap_or_default(), frame, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::test_environment::{TestEnvironment, frames};
    use scalebricks_graph::Clock;
    use std::path::Path;

    /// Counts of packets pushed to it, pulled through it, or pulled by it, and what is in its file.
    fn written(
        args: &[&str],
        row: &[&str],
        ends: usize,
        folder: &Path,
    ) -> (Vec<Vec<u8>>, crate::test_environment::Frames) {
        let path = folder.join("out.pcapng");
        let args: Vec<&str> = [path.to_str().unwrap()].iter().chain(args).copied().collect();
        let mut rig = Rig::new(ends, |builder| {
            builder.declare("d", "ToDump", &args);
            for other in row.iter().filter(|name| **name == "q" || **name == "u") {
                builder.declare(other, if *other == "q" { "Queue" } else { "Unqueue" }, &[]);
            }
            builder.chain(row);
        });
        let mut outside = TestEnvironment::new(Clock::Captures);
        rig.open(&mut outside).unwrap();
        rig.send((0..40).map(|n| [n, n]));
        (0..3).for_each(|_| {
            rig.turn();
        });
        assert_eq!(["written", "not_written", "count"].map(|name| rig.number("d", name)), [40, 0, 40]);
        outside.finish();
        rig.send([[9, 9]]);
        rig.turn();
        rig.turn();
        assert_eq!(rig.number("d", "not_written"), 1);
        assert_eq!(rig.worker.graph().faults().count(), 1);
        (if ends > 0 { rig.got(0) } else { Vec::new() }, frames(&path))
    }

    #[test]
    fn it_writes_what_passes_by_push_and_pull_and_what_ends_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<Vec<u8>> = (0..40).map(|n| vec![n, n]).collect();
        for (row, ends) in [
            (&["in", "d", "out0"][..], 1),
            (&["in", "d"], 0),
            (&["in", "q", "d", "u", "out0"], 1),
            (&["in", "q", "d"], 0),
        ] {
            let (passed, file) = written(&[], row, ends, folder.path());
            assert_eq!(passed.len(), ends * 41, "{row:?}");
            assert_eq!(file.iter().map(|(_, data)| data.clone()).collect::<Vec<_>>(), all, "{row:?}");
            assert_eq!(file[0].0, 1_000_000, "the first turn is at a millisecond");
        }
        let (_, cut) = written(&["SNAPLEN 1"], &["in", "d"], 0, folder.path());
        assert!(cut.iter().zip(0..).all(|((_, data), n)| data == &[n]));
    }

    #[test]
    fn only_ethernet_is_written() {
        let make = |encap: &'static str| {
            Rig::with_buffers(1, 0, move |builder| {
                builder.declare("d", "ToDump", &["x.pcap", encap]).chain(&["in", "d"]);
            })
        };
        assert!(make("ENCAP IP").is_err() && make("ENCAP ETHER").is_ok());
    }
}
