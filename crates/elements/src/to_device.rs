//! `ToDevice`.

use crate::recorder::Recorder;
use scalebricks_graph::{
    Bursts, Class, Control, CounterId, Element, Environment, Frame, HandlerId, Meta, Out, Outlet, SLOTS,
    SlotList, Upstream, element,
};
use scalebricks_io::{BURST, Burst, PacketBuf, TxPort};
use std::any::Any;
use std::mem::swap;

/// Where packets go once it is open.
enum Open<P> {
    Nothing,
    /// A port, and packets that it has not taken yet.
    Port(Box<dyn TxPort<P>>, Burst<P>),
    Capture(Recorder),
}

element! {
    /// Sends packets to a device. The device, or a capture that replaces it, is chosen when the graph is run. Up to one
    /// burst waits for the device; meanwhile nothing more is pulled, and pushing sources see back-pressure. Unlike
    /// Click's, the input may also be pushed to.
    pub struct ToDevice<P> as "ToDevice" { name: String, burst: usize, batch: SlotList, sent: u64, open: Open<P>, }
    inputs {
        agnostic "in" [Optional]: "Packets to send, as Ethernet.",
        burst "bursts" [Optional]: "The same, passed by value.",
    }
    params ToDeviceParams {
        /// The device's name.
        devname: String,
        /// Most packets pulled per turn. Click's default is 1.
        burst: usize = BURST,
        /// Not used: the port decides.
        method: String = String::new(),
        /// Not used.
        debug: bool = false,
    }
    drops { FULL = "device_full": "The device has not yet taken the previous burst.", }
    counters {
        SENT = "sent": "Packets taken by the device.",
        FAILED = "not_written": "Packets that could not be written to the capture that replaces the device.",
    }
    handlers { read COUNT = "count": "Packets taken by the device.", }
    hooks { Pulls, End, Pressure, }
}

impl<P: PacketBuf> ToDevice<P> {
    const COUNTED: [CounterId; 2] = [Self::SENT, Self::FAILED];

    /// Sends the batch, as far as the device takes it and packets may wait.
    fn send(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        match &mut self.open {
            Open::Nothing => {
                out.count(Self::SENT, self.batch.len() as u64);
                self.sent += self.batch.len() as u64;
                self.batch.drain().for_each(|slot| drop(frame.take(slot)));
            }
            Open::Capture(recorder) => {
                recorder.write(self.batch.as_slice(), 0, frame, out, Self::COUNTED);
                self.sent = recorder.written;
                self.batch.drain().for_each(|slot| drop(frame.take(slot)));
            }
            Open::Port(_, waiting) if self.batch.len() <= waiting.remaining_capacity() => {
                // What is full is sent when the turn ends, or when more comes.
                frame.take_all(&mut self.batch, waiting, |_, _| ());
            }
            Open::Port(port, waiting) => {
                for slot in self.batch.drain() {
                    if waiting.is_full() {
                        let sent = port.tx_burst(waiting) as u64;
                        self.sent += sent;
                        out.count(Self::SENT, sent);
                    }
                    if waiting.is_full() {
                        out.drop(slot, Self::FULL);
                    } else {
                        waiting.push(frame.take(slot));
                    }
                }
            }
        }
    }

    /// Sends a full burst to the device; whether more packets may wait then.
    fn make_room(&mut self, out: &Out<'_>) -> bool {
        if let Open::Port(port, waiting) = &mut self.open
            && waiting.is_full()
        {
            let sent = port.tx_burst(waiting) as u64;
            self.sent += sent;
            out.count(Self::SENT, sent);
        }
        self.waiting() < BURST
    }

    /// Number of packets that wait for the device.
    fn waiting(&self) -> usize {
        if let Open::Port(_, waiting) = &self.open { waiting.len() } else { 0 }
    }
}

impl<P: PacketBuf + 'static> Class for ToDevice<P> {
    fn make(params: ToDeviceParams) -> Result<Self, String> {
        let ToDeviceParams { devname: name, burst, .. } = params;
        if name.is_empty() {
            return Err("the device has no name".to_owned());
        }
        Ok(Self { name, burst: burst.clamp(1, SLOTS), batch: SlotList::new(), sent: 0, open: Open::Nothing })
    }
}

impl<P: PacketBuf + 'static> Control for ToDevice<P> {
    fn read(&self, _: HandlerId) -> String {
        self.sent.to_string()
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if before.name == self.name && matches!(self.open, Open::Nothing) {
            self.sent = before.sent;
            swap(&mut self.open, &mut before.open);
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for ToDevice<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.batch.append(batch);
        self.send(frame, out);
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Open::Port(port, waiting) = &mut self.open else {
            // Captures take slots.
            bursts.each(|chunk| {
                for packet in chunk.packets.drain(..) {
                    if let Some(slot) = out.put(packet, frame) {
                        self.batch.push(slot);
                    }
                }
            });
            return self.send(frame, out);
        };
        let mut total = 0;
        bursts.each(|chunk| {
            let packets = &mut chunk.packets;
            if waiting.is_empty() {
                total += port.tx_burst(packets);
            }
            while !packets.is_empty() {
                let fit = packets.len().min(waiting.remaining_capacity());
                waiting.extend(packets.drain(..fit));
                if waiting.is_full() {
                    total += port.tx_burst(waiting);
                }
                if waiting.is_full() {
                    break;
                }
            }
            packets.drain(..).for_each(|packet| out.drop_packet(packet, Self::FULL, frame));
        });
        self.sent += total as u64;
        out.count(Self::SENT, total as u64);
    }

    fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut left = self.burst;
        loop {
            let want = left.min(BURST - self.waiting());
            let packets = match &mut self.open {
                Open::Port(_, waiting) => upstream.pull_packets(0, want, waiting, out),
                Open::Nothing | Open::Capture(_) => None,
            };
            let came = packets.unwrap_or_else(|| {
                let want = want.min(out.intake(frame.used()));
                let came = upstream.pull(0, want, &mut self.batch, frame, out);
                self.send(frame, out);
                came
            });
            left = left.saturating_sub(came);
            if came == 0 || came < want || left == 0 || !self.make_room(out) {
                return;
            }
        }
    }

    fn only_pulls(&self) -> bool {
        true
    }

    fn end(&mut self, _: &mut Frame<P>, out: &mut Out<'_>) {
        if let Open::Port(port, waiting) = &mut self.open {
            if !waiting.is_empty() {
                let sent = port.tx_burst(waiting) as u64;
                self.sent += sent;
                out.count(Self::SENT, sent);
            }
            out.set_pressure(!waiting.is_empty());
        }
    }

    fn retire(&mut self) {
        if matches!(self.open, Open::Port(..)) {
            self.open = Open::Nothing;
        }
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.open = match world.outlet(&self.name)? {
            Outlet::Port(port) => Open::Port(port, Burst::new()),
            Outlet::Capture(recording) => Open::Capture(Recorder::new(recording)),
            Outlet::Nothing => Open::Nothing,
        };
        Ok(())
    }

    fn fault(&self) -> Option<String> {
        let Open::Capture(recorder) = &self.open else { return None };
        Some(format!("the capture for {}: {}", self.name, recorder.fault()?))
    }

    fn held(&self) -> usize {
        self.waiting()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        if let Open::Port(_, waiting) = &mut self.open {
            waiting.drain(..).for_each(|packet| to(packet, Meta::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::test_environment::{TestEnvironment, frames};
    use scalebricks_graph::{Clock, Environment, Outlet};
    use scalebricks_io::{Packet, PacketBuf};
    use std::path::Path;

    fn heads(far: &mut scalebricks_io::MemoryPort<Packet>) -> Vec<u8> {
        std::iter::from_fn(|| far.receive()).map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn what_a_device_does_not_take_waits_and_more_is_not_pulled() {
        let mut rig = Rig::new(0, |builder| {
            builder.declare("q", "Queue", &[]).declare("d", "ToDevice", &["eth1"]).chain(&["in", "q", "d"]);
        });
        let mut outside = TestEnvironment::new(Clock::Wall);
        let mut far = outside.sends("eth1", 20);
        rig.open(&mut outside).unwrap();
        rig.send((0..100).map(|n| [n]));
        (0..5).for_each(|_| {
            rig.turn();
        });
        assert_eq!((rig.number("d", "sent"), rig.worker.graph().held()), (20, 80));
        let mut got = Vec::new();
        for _ in 0..20 {
            got.extend(heads(&mut far));
            rig.turn();
        }
        got.extend(heads(&mut far));
        assert_eq!((got, rig.number("d", "count")), ((0..100).collect(), 100));
    }

    #[test]
    fn pushed_packets_over_a_burst_are_dropped_and_sources_wait() {
        let mut rig = Rig::new(0, |builder| {
            builder.declare("d", "ToDevice", &["eth1"]).chain(&["in", "d"]);
        });
        let mut outside = TestEnvironment::new(Clock::Wall);
        let mut far = outside.sends("eth1", 20);
        rig.open(&mut outside).unwrap();
        rig.send((0..100).map(|n| [n]));
        rig.turn();
        assert_eq!((rig.number("d", "sent"), rig.number("d", "device_full")), (20, 48));
        assert_eq!(heads(&mut far), (0..20).collect::<Vec<u8>>());
        rig.send([[200]]);
        rig.turn();
        assert_eq!(
            (heads(&mut far), rig.number("d", "packets")),
            ((20..40).collect(), 100),
            "the source waits"
        );
        rig.turn();
        rig.turn();
        assert_eq!(heads(&mut far), (40..52).chain([200]).collect::<Vec<u8>>());
    }

    #[test]
    fn several_bursts_are_pulled_a_turn() {
        let mut rig = Rig::new(0, |builder| {
            builder.declare("q", "Queue", &[]).declare("d", "ToDevice", &["eth1", "BURST 100"]);
            builder.chain(&["in", "q", "d"]);
        });
        let mut outside = TestEnvironment::new(Clock::Wall);
        let mut far = outside.sends("eth1", 200);
        rig.open(&mut outside).unwrap();
        rig.send((0..120).map(|n| [n]));
        rig.turn();
        assert_eq!((rig.number("d", "sent"), rig.number("d", "packets")), (100, 100));
        rig.turn();
        assert_eq!((heads(&mut far), rig.number("q", "length")), ((0..120).collect(), 0));
    }

    #[test]
    fn a_capture_may_stand_in_the_place_of_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let mut rig = Rig::new(0, |builder| {
            builder.declare("d", "ToDevice", &["eth1"]).chain(&["in", "d"]);
        });
        let mut outside = TestEnvironment::new(Clock::Captures);
        let recording = Environment::write(&mut outside, Path::new(&path)).unwrap();
        outside.outlets.insert("eth1".to_owned(), Outlet::Capture(recording));
        rig.open(&mut outside).unwrap();
        rig.send([[1], [2]]);
        rig.turn();
        outside.finish();
        assert_eq!(
            (rig.number("d", "count"), frames(&path)),
            (2, vec![(1_000_000, vec![1]), (1_000_000, vec![2])])
        );
    }
}
