//! Elements for tests. A packet is `[flow, laps, sequence, sequence, copies…]`. An element decides by flow only, so all
//! packets of a flow take the same path. A fork appends the number of its output to each copy.

use scalebricks_graph::element::HandlerError;
use scalebricks_graph::out::Out;
use scalebricks_graph::{
    Bursts, Class, Control, Element, Frame, HandlerId, Meta, PacketContext, PerPacket, Registry, SlotList,
    Upstream, Verdict, agnostic, element,
};
use scalebricks_io::{Packet, PacketBuf, Pool};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The packets that a source sends, or that a sink received.
pub type Tray = Arc<Mutex<VecDeque<Vec<u8>>>>;

element! {
    /// Sends the packets of a tray.
    pub struct Feed as "Feed" { pub tray: Tray, pub pool: Pool, pub burst: usize, }
    outputs { push "out": "Packets.", }
    counters { FED = "fed": "Packets brought in.", }
    hooks { Begin, }
}

impl Control for Feed {}

impl Element<Packet> for Feed {
    fn begin(&mut self, _: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        if out.is_blocked() {
            return;
        }
        for _ in 0..self.burst.min(out.intake(frame.used())) {
            let Some(bytes) = self.tray.lock().unwrap().pop_front() else { return };
            let Some(packet) = self.pool.packet(&bytes) else {
                self.tray.lock().unwrap().push_front(bytes);
                return;
            };
            let slot = frame.put(packet).unwrap();
            out.count(Self::FED, 1);
            out.push(0, slot);
        }
    }
}

element! {
    /// Collects packets in a tray.
    pub struct Sink as "Sink" { pub tray: Tray, }
    inputs { push "in": "Packets.", }
    counters { TAKEN = "taken": "Packets taken.", }
}

impl Control for Sink {}

impl Element<Packet> for Sink {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            let packet = frame.take(slot);
            self.tray.lock().unwrap().push_back(packet.data().to_vec());
            out.count(Self::TAKEN, 1);
        }
    }
}

element! {
    /// Passes on all packets.
    pub struct Pass as "Pass" {}
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    makes |_| Self {},
}

element! {
    /// Drops one of every `of` flows.
    pub struct Toss as "Toss" { every: u8, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "Those of other flows.", push "rest" [Optional]: "Unused.", }
    params TossParams {
        /// One of this many flows is dropped.
        every: u8,
    }
    drops { TOSSED = "tossed": "It was of the flow.", }
    counters { KEPT = "kept": "Packets passed on.", }
    handlers { read EVERY = "every": "Of how many flows one is dropped.", write SET = "every": "Sets it.", }
}

element! {
    /// Sends a packet around once more while it has laps left.
    pub struct Lap as "Lap" {}
    inputs { push "in": "Packets.", }
    outputs { push "done": "Packets without laps.", push "again": "The others, with a lap less.", }
    makes |_| Self {},
}

element! {
    /// Sends flows whose number has a bit set to output 1.
    pub struct Bit as "Bit" { bit: u8, }
    inputs { push "in": "Packets.", }
    outputs { push "clear": "Others.", push "set" [Optional]: "Flows with the bit.", push "spare" [Optional]: "None.", }
    params BitParams {
        /// The bit.
        bit: u8,
    }
    makes |params| Self { bit: params.bit },
}

impl Control for Bit {}

impl<P: PacketBuf> PerPacket<P> for Bit {
    fn each(&mut self, packet: &mut P, _: &mut Meta, _: PacketContext<'_>) -> Verdict {
        if packet.data()[0] >> self.bit & 1 == 0 { Verdict::ON } else { Verdict::Out(1) }
    }
}

agnostic! { Pass }
agnostic! { Toss }
agnostic! { Lap }
agnostic! { Bit }

impl Class for Toss {
    fn make(params: TossParams) -> Result<Self, String> {
        match params.every {
            0 => Err("one of no flows".to_owned()),
            every => Ok(Self { every }),
        }
    }
}

impl Control for Pass {}

impl<P: PacketBuf> PerPacket<P> for Pass {
    fn each(&mut self, _: &mut P, _: &mut Meta, _: PacketContext<'_>) -> Verdict {
        Verdict::ON
    }
}

impl Control for Toss {
    fn read(&self, handler: HandlerId) -> String {
        assert_eq!(handler, Self::EVERY);
        self.every.to_string()
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        assert_eq!(handler, Self::SET);
        self.every = value.parse().ok().filter(|&n| n > 0).ok_or(HandlerError::Value("no number".into()))?;
        Ok(())
    }
}

impl<P: PacketBuf> PerPacket<P> for Toss {
    fn each(&mut self, packet: &mut P, _: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        if packet.data()[0].is_multiple_of(self.every) {
            return Verdict::Drop(Self::TOSSED);
        }
        tally.count(Self::KEPT, 1);
        Verdict::ON
    }
}

impl Control for Lap {}

impl<P: PacketBuf> PerPacket<P> for Lap {
    fn each(&mut self, packet: &mut P, _: &mut Meta, _: PacketContext<'_>) -> Verdict {
        let laps = &mut packet.data_mut()[1];
        if *laps == 0 {
            return Verdict::ON;
        }
        *laps -= 1;
        Verdict::Out(1)
    }
}

element! {
    /// Splits by flow.
    pub struct Split as "Split" { pub salt: u8, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Packets of some flows.", }
}

impl Control for Split {}

impl Element<Packet> for Split {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let outputs = out.outputs();
        for slot in batch.drain() {
            let flow = frame.packet(&slot).data()[0].wrapping_mul(31).wrapping_add(self.salt);
            out.push(usize::from(flow) % outputs, slot);
        }
    }
}

element! {
    /// Splits by flow, with packets passed by value.
    pub struct Carry as "Carry" { pub salt: u8, }
    inputs { burst "in": "Packets.", }
    outputs { burst "out" [OneOrMore]: "Packets of some flows.", }
}

impl Control for Carry {}

impl Element<Packet> for Carry {
    fn push(&mut self, _: usize, _: &mut SlotList, _: &mut Frame<Packet>, _: &mut Out<'_>) {
        unreachable!("packets come by value");
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let outputs = out.outputs();
        bursts.each(|chunk| {
            for packet in chunk.packets.drain(..) {
                let flow = packet.data()[0].wrapping_mul(31).wrapping_add(self.salt);
                frame.send(usize::from(flow) % outputs, packet);
            }
        });
    }
}

element! {
    /// Sends a copy to each output.
    pub struct Fork as "Fork" {}
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Copies.", }
    counters { COPIES = "copies": "Copies made.", FAILED = "failed": "Copies that were not made.", }
}

impl Control for Fork {}

impl Element<Packet> for Fork {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            for output in 1..out.outputs() {
                match frame.copy(&slot) {
                    Some(copy) => {
                        frame.packet_mut(&copy).append(&[output as u8]).unwrap();
                        out.count(Self::COPIES, 1);
                        out.push(output, copy);
                    }
                    None => out.count(Self::FAILED, 1),
                }
            }
            frame.packet_mut(&slot).append(&[0]).unwrap();
            out.push(0, slot);
        }
    }
}

/// A packet's sequence number.
pub fn sequence(packet: &[u8]) -> u32 {
    u32::from(u16::from_be_bytes([packet[2], packet[3]]))
}

pub fn registry() -> Registry<Packet> {
    let mut registry = Registry::new();
    registry.add::<Pass>().add::<Toss>().add::<Lap>().add::<Bit>();
    registry.fuse::<(Bit, Bit, Bit)>().fuse::<(Pass, Toss)>().fuse::<(Pass, Toss, Pass)>();
    registry
}

pub fn toss(every: u8) -> Toss {
    Toss { every }
}

pub fn pass() -> Pass {
    Pass {}
}

pub fn lap() -> Lap {
    Lap {}
}

/// Packets of a flow, with laps and a sequence number.
pub fn packet(flow: u8, laps: u8, sequence: u16) -> Vec<u8> {
    let [a, b] = sequence.to_be_bytes();
    vec![flow, laps, a, b]
}
