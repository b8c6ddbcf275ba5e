//! A graph around the element under test: `in` before it, and `out0`, `out1`, … after it.

use scalebricks_graph::{
    BuildErrors, Builder, Control, Element, Environment, Frame, Ledger, Meta, Out, SlotList, Upstream,
    Worker, element,
};
use scalebricks_io::{Packet, PacketBuf, Pool};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::ipv6::Ipv6Header;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Tray = Arc<Mutex<VecDeque<(Vec<u8>, Meta)>>>;

element! {
    /// Injects packets.
    struct In as "In" { tray: Tray, }
    outputs { push "out": "Packets.", }
    hooks { Begin, }
}

element! {
    /// Collects packets.
    struct End as "End" { tray: Tray, }
    inputs { push "in": "Packets.", }
}

impl Control for In {}

impl Control for End {}

impl Element<Packet> for In {
    fn begin(&mut self, _: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for _ in 0..out.intake(frame.used()) {
            if out.is_blocked() {
                return;
            }
            let Some((bytes, meta)) = self.tray.lock().unwrap().pop_front() else { return };
            let mut packet = frame.alloc().unwrap();
            packet.append(&bytes).unwrap();
            let slot = frame.put(packet).unwrap();
            *frame.meta_mut(&slot) = meta;
            out.push(0, slot);
        }
    }
}

impl Element<Packet> for End {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        for slot in batch.drain() {
            let meta = *frame.meta(&slot);
            self.tray.lock().unwrap().push_back((frame.take(slot).data().to_vec(), meta));
        }
    }
}

pub(crate) struct Rig {
    pub(crate) worker: Worker<Packet>,
    pub(crate) ledger: Ledger,
    input: Tray,
    outputs: Vec<Tray>,
    now: Duration,
}

fn declare(builder: &mut Builder<Packet>, input: &Tray, outputs: &[Tray]) {
    builder.add("in", In { tray: input.clone() });
    for (at, tray) in outputs.iter().enumerate() {
        builder.add(&format!("out{at}"), End { tray: tray.clone() });
    }
}

impl Rig {
    /// The graph that `fill` completes, with this many ends.
    pub(crate) fn new(ends: usize, fill: impl FnOnce(&mut Builder<Packet>)) -> Self {
        Self::with_buffers(1_000, ends, fill).unwrap()
    }

    /// The same with a pool of this many packets.
    pub(crate) fn with_buffers(
        buffers: usize,
        ends: usize,
        fill: impl FnOnce(&mut Builder<Packet>),
    ) -> Result<Self, BuildErrors> {
        let input = Tray::default();
        let outputs: Vec<Tray> = (0..ends).map(|_| Tray::default()).collect();
        let (mut builder, mut ledger, pool) =
            (Builder::new(), Ledger::new(), Pool::new(buffers, 2_000).unwrap());
        declare(&mut builder, &input, &outputs);
        fill(&mut builder);
        let graph = builder.build(&crate::registry(), &mut ledger)?;
        let worker = Worker::new(graph, Box::new(pool), ());
        Ok(Self { worker, ledger, input, outputs, now: Duration::ZERO })
    }

    /// Opens the elements' resources.
    pub(crate) fn open(
        &mut self,
        world: &mut dyn Environment<Packet>,
    ) -> Result<(), Vec<(Arc<str>, String)>> {
        self.worker.graph_mut().open(world)
    }

    /// Runs a turn at this time.
    pub(crate) fn turn_at(&mut self, now: Duration) -> usize {
        self.now = now;
        self.worker.turn(now)
    }

    /// Replaces the graph.
    pub(crate) fn replace(&mut self, fill: impl FnOnce(&mut Builder<Packet>)) {
        let mut builder = Builder::new();
        declare(&mut builder, &self.input, &self.outputs);
        fill(&mut builder);
        let graph = builder.build(&crate::registry(), &mut self.ledger).unwrap();
        drop(self.worker.replace(Box::new(graph)));
    }

    pub(crate) fn send(&self, packets: impl IntoIterator<Item = impl Into<Vec<u8>>>) {
        let packets = packets.into_iter().map(|bytes| (bytes.into(), Meta::default()));
        self.input.lock().unwrap().extend(packets);
    }

    pub(crate) fn send_painted(&self, packets: impl IntoIterator<Item = (u8, u8)>) {
        let painted = |paint| {
            let mut meta = Meta::default();
            meta.paint = paint;
            meta
        };
        self.input
            .lock()
            .unwrap()
            .extend(packets.into_iter().map(|(byte, paint)| (vec![byte], painted(paint))));
    }

    pub(crate) fn send_noted(&self, packets: impl IntoIterator<Item = (Vec<u8>, Meta)>) {
        self.input.lock().unwrap().extend(packets);
    }

    /// Runs a turn, a millisecond after the last.
    pub(crate) fn turn(&mut self) -> usize {
        self.turn_after(Duration::from_millis(1))
    }

    pub(crate) fn turn_after(&mut self, time: Duration) -> usize {
        self.now += time;
        self.worker.turn(self.now)
    }

    /// The packets that reached an end since the last call.
    pub(crate) fn got(&self, end: usize) -> Vec<Vec<u8>> {
        self.outputs[end].lock().unwrap().drain(..).map(|(bytes, _)| bytes).collect()
    }

    /// The first byte of each packet that reached an end.
    pub(crate) fn heads(&self, end: usize) -> Vec<u8> {
        self.got(end).iter().map(|bytes| bytes[0]).collect()
    }

    pub(crate) fn noted(&self, end: usize) -> Vec<(Vec<u8>, Meta)> {
        self.outputs[end].lock().unwrap().drain(..).collect()
    }

    pub(crate) fn paints(&self, end: usize) -> Vec<u8> {
        self.outputs[end].lock().unwrap().drain(..).map(|(_, meta)| meta.paint).collect()
    }

    pub(crate) fn read(&mut self, element: &str, handler: &str) -> String {
        self.worker.graph_mut().read(element, handler).unwrap()
    }

    pub(crate) fn number(&mut self, element: &str, handler: &str) -> u64 {
        self.read(element, handler).parse().unwrap()
    }

    pub(crate) fn write(&mut self, element: &str, handler: &str, value: &str) -> Result<(), String> {
        self.worker.graph_mut().write(element, handler, value).map_err(|error| error.to_string())
    }
}

/// A packet from 10.0.0.1 to 10.0.9.9 with this TTL, of protocol 17.
pub(crate) fn ipv4(ttl: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_of(|header| header.ttl = ttl, payload)
}

/// The same, with other fields.
pub(crate) fn ipv4_of(change: impl FnOnce(&mut Ipv4Header), payload: &[u8]) -> Vec<u8> {
    let mut header = Ipv4Header {
        dscp_ecn: 0,
        total_len: 20 + payload.len() as u16,
        identification: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_units: 0,
        ttl: 64,
        protocol: 17,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 9, 9].into(),
    };
    change(&mut header);
    [&header.to_bytes()[..], payload].concat()
}

/// A packet with these options, whose length is a multiple of 4.
pub(crate) fn ipv4_with_options(options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = ipv4_of(|header| header.total_len += options.len() as u16, payload);
    packet.splice(20..20, options.iter().copied());
    packet[0] += (options.len() / 4) as u8;
    crate::header::sum(&mut packet[..20 + options.len()]);
    packet
}

/// A packet from `2001:db8::1` to `2001:db8::9:9` with this hop limit, of protocol 17.
pub(crate) fn ipv6(hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    ipv6_of(|header| header.hop_limit = hop_limit, payload)
}

/// The same, with other fields.
pub(crate) fn ipv6_of(change: impl FnOnce(&mut Ipv6Header), payload: &[u8]) -> Vec<u8> {
    let mut header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header: 17,
        hop_limit: 64,
        src: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        dst: [0x2001, 0xdb8, 0, 0, 0, 0, 9, 9].into(),
    };
    change(&mut header);
    [&header.to_bytes()[..], payload].concat()
}
