//! `FromDevice`.

use crate::capture_source::{CaptureSource, note_link};
use crate::gate::{Gate, gated};
use crate::shared_names::{counters, drops};
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{
    Binder, Class, Control, Element, Environment, Frame, HandlerId, Inlet, Meta, Out, SLOTS, SlotList,
    Supply, Upstream,
};
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort};
use scalebricks_tables::prefetch_in_front;
use std::any::Any;
use std::mem::swap;

/// The packet source once it is open.
enum Open<P> {
    Closed,
    /// A port, and packets received from it that wait for a slot.
    Port(Box<dyn RxPort<P>>, Burst<P>),
    Capture(Box<CaptureSource>),
}

gated! {
    /// Receives packets from a device, as Ethernet, and records whether they were broadcast or multicast. The device,
    /// or a capture that replaces it, is chosen when the graph is run. Parameters after `BURST` are accepted for
    /// compatibility with Click; here the port determines them. `PollDevice` is another name of this class.
    pub struct FromDevice<P> as "FromDevice" { name: String, burst: usize, by_value: bool, open: Open<P>, }
    outputs { burst "out": "Packets. To a `burst` input they pass by value, without that record.", }
    params FromDeviceParams {
        /// The device's name.
        devname: String,
        /// Most packets per turn. Click's default is 1.
        burst: usize = BURST,
        /// Whether it is active from the start.
        active: bool = true,
        /// Not used.
        promisc: bool = true,
        /// Not used.
        sniffer: bool = false,
        /// Not used.
        snaplen: usize = 65_535,
        /// Not used.
        headroom: usize = 0,
        /// Not used.
        method: String = String::new(),
    }
    drops { TOO_LONG = drops::LONG_FRAME, }
    counters { NO_BUFFER = counters::NO_BUFFER, }
    handlers { reset "reset_counts", }
}

impl<P: PacketBuf + 'static> Class for FromDevice<P> {
    fn make(params: FromDeviceParams) -> Result<Self, String> {
        let FromDeviceParams { devname: name, burst, active, .. } = params;
        if name.is_empty() {
            return Err("the device has no name".to_owned());
        }
        Ok(Self { gate: Gate::new(active, -1), name, burst, by_value: false, open: Open::Closed })
    }
}

impl<P: PacketBuf> FromDevice<P> {
    /// Puts up to `want` packets, for which there is room, into slots; returns how many.
    fn bring_in_slots(
        port: &mut dyn RxPort<P>,
        waiting: &mut Burst<P>,
        want: usize,
        frame: &mut Frame<P>,
        list: &mut SlotList,
    ) -> usize {
        let meta = |packet: &P| {
            let mut meta = Meta::default();
            note_link(packet.data(), &mut meta);
            meta
        };
        let (mut all, mut is_dry) = (0, false);
        while all < want {
            if waiting.is_empty() {
                if is_dry {
                    break;
                }
                is_dry = port.rx_burst(waiting) < BURST;
                // The loads of the first lines overlap.
                waiting.iter().for_each(|packet| prefetch_in_front(packet.data(), 0));
            }
            let take = waiting.len().min(want - all);
            if take < waiting.len() {
                for packet in waiting.drain(..take) {
                    // Counted before: there is room.
                    let note = meta(&packet);
                    let Ok(slot) = frame.put_with(packet, note) else { break };
                    list.push(slot);
                }
            } else {
                frame.put_burst(waiting, list, meta);
            }
            all += take;
        }
        all
    }

    /// Passes up to `want` packets by value; returns how many. Whole bursts go from the port to the graph without a copy
    /// in between, and no byte of a packet is read or prefetched: that is left to elements that need it.
    fn bring_by_value(
        port: &mut dyn RxPort<P>,
        waiting: &mut Burst<P>,
        want: usize,
        frame: &mut Frame<P>,
    ) -> usize {
        let used = frame.used();
        let bursts = frame.bursts(0);
        let mut all = 0;
        while all < want {
            if waiting.is_empty() && want - all >= BURST && used + all + BURST <= SLOTS {
                let came = bursts.fill(|burst| port.rx_burst(burst));
                all += came;
                if came < BURST {
                    break;
                }
                continue;
            }
            if waiting.is_empty() {
                port.rx_burst(waiting);
            }
            let take = waiting.len().min(want - all).min(SLOTS.saturating_sub(used + all));
            if take == 0 {
                break;
            }
            waiting.drain(..take).for_each(|packet| bursts.push(packet));
            all += take;
        }
        all
    }
}

impl<P: PacketBuf + 'static> Control for FromDevice<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.by_value = binder.leads_to_bursts(0);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        self.read_gate(handler)
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.write_gate(handler, value)
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if before.name == self.name && matches!(self.open, Open::Closed) {
            self.gate.take_over(before.gate);
            swap(&mut self.open, &mut before.open);
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for FromDevice<P> {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.gate.is_active() || out.is_blocked() {
            return;
        }
        let want = out.intake(frame.used()).min(self.burst);
        match &mut self.open {
            Open::Closed => {}
            Open::Capture(frames) => {
                let brought = frames.bring(want, Self::TOO_LONG, frame, out);
                out.count(Self::NO_BUFFER, u64::from(brought.had_no_buffer));
                self.gate.pass(brought.packets);
            }
            Open::Port(port, waiting) if self.by_value => {
                self.gate.pass(Self::bring_by_value(&mut **port, waiting, want, frame) as u64);
            }
            Open::Port(port, waiting) => {
                let want = want.min(SLOTS - frame.used());
                let Some(list) = out.list(0) else { return };
                self.gate.pass(Self::bring_in_slots(&mut **port, waiting, want, frame, list) as u64);
            }
        }
    }

    fn retire(&mut self) {
        if matches!(self.open, Open::Port(..)) {
            self.open = Open::Closed;
        }
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.open = match world.inlet(&self.name)? {
            Inlet::Port(port) => Open::Port(port, Burst::new()),
            // It replaces a device, so it keeps the capture's pace.
            Inlet::Capture(reader) => {
                Open::Capture(Box::new(CaptureSource::new(reader, world.clock(), true)))
            }
            Inlet::Nothing => Open::Closed,
        };
        Ok(())
    }

    fn supply(&self) -> Option<Supply> {
        match &self.open {
            Open::Capture(frames) => {
                Some(if self.gate.is_active() { frames.supply() } else { Supply::Ended })
            }
            Open::Closed | Open::Port(..) => None,
        }
    }

    fn fault(&self) -> Option<String> {
        let Open::Capture(frames) = &self.open else { return None };
        Some(format!("the capture for {}: {}", self.name, frames.fault()?))
    }

    fn held(&self) -> usize {
        if let Open::Port(_, waiting) = &self.open { waiting.len() } else { 0 }
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
    use crate::test_environment::{TestEnvironment, capture};
    use scalebricks_graph::{Clock, Inlet, Supply};
    use scalebricks_io::{CaptureReader, Pool};
    use std::time::Duration;

    fn rig(class: &str, args: &[&str]) -> Rig {
        Rig::new(1, |builder| {
            builder.declare("f", class, args).declare("idle", "Idle", &[]);
            builder.chain(&["f", "out0"]).chain(&["in", "idle"]);
        })
    }

    #[test]
    fn it_brings_what_a_port_has_in_order_and_in_bursts() {
        for class in ["FromDevice", "PollDevice"] {
            let args = ["eth0", "BURST 5", "PROMISC true"];
            let mut rig = rig(class, &args);
            let mut outside = TestEnvironment::new(Clock::Wall);
            let (mut far, mut pool) = (outside.receives("eth0", 100), Pool::new(100, 100).unwrap());
            rig.open(&mut outside).unwrap();
            (0..40).for_each(|n| far.send(pool.packet(&[n]).unwrap()).unwrap());
            rig.turn();
            assert_eq!(rig.heads(0), [0, 1, 2, 3, 4]);
            assert_eq!((rig.worker.graph().held(), rig.worker.graph().supply()), (27, None));
            rig.replace(|builder| {
                builder.declare("f", class, &args).declare("idle", "Idle", &[]);
                builder.chain(&["f", "out0"]).chain(&["in", "idle"]);
            });
            (0..9).for_each(|_| {
                rig.turn();
            });
            assert_eq!((rig.heads(0), rig.number("f", "count")), ((5..40).collect(), 40));
            rig.write("f", "active", "false").unwrap();
            far.send(pool.packet(&[77]).unwrap()).unwrap();
            rig.turn();
            assert_eq!(rig.heads(0), []);
        }
    }

    #[test]
    fn several_bursts_come_a_turn() {
        let mut rig = rig("FromDevice", &["eth0", "BURST 70"]);
        let mut outside = TestEnvironment::new(Clock::Wall);
        let (mut far, mut pool) = (outside.receives("eth0", 200), Pool::new(200, 100).unwrap());
        rig.open(&mut outside).unwrap();
        (0..150).for_each(|n| far.send(pool.packet(&[n]).unwrap()).unwrap());
        for expected in [0..70, 70..140, 140..150] {
            rig.turn();
            assert_eq!(rig.heads(0), expected.collect::<Vec<u8>>());
        }
    }

    #[test]
    fn a_capture_may_stand_in_the_place_of_a_device() {
        let (_folder, path) = capture(&[(1_000, vec![1; 30]), (3_000, vec![2; 30])]);
        let mut rig = rig("FromDevice", &["eth0"]);
        let mut outside = TestEnvironment::new(Clock::Captures);
        outside.inlets.insert("eth0".to_owned(), Inlet::Capture(CaptureReader::open(path).unwrap()));
        rig.open(&mut outside).unwrap();
        rig.turn_at(Duration::from_micros(1));
        assert_eq!(rig.heads(0), [1]);
        assert_eq!(rig.worker.graph().supply(), Some(Supply::At(Duration::from_micros(3))));
        rig.turn_at(Duration::from_micros(3));
        assert_eq!((rig.heads(0), rig.worker.graph().supply()), (vec![2], Some(Supply::Ended)));
        let failed = self::rig("FromDevice", &["eth7"]).open(&mut outside).unwrap_err();
        assert_eq!(failed, [("f".into(), "no device eth7".to_owned())]);
    }
}
