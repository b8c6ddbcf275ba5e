//! What passing an element costs: rows of 1 to 32 elements, batches of 1, 8 and 64 packets.
//!
//! Prints, for each kind of element, length of the row and batch, nanoseconds a packet and element: the least of several
//! runs, less the cost of a row without elements. Kinds: `whole` passes a batch on by a swap, `each` looks at every packet
//! and passes it on, `fused` is the same with eight elements in one loop.
//!
//! ```text
//! cargo run --release -p scalebricks-graph --example hops [RUNS]
//! ```
//!
//! `scripts/instructions hops` counts instructions in place of time: `hops --count KIND ROW BATCH TURNS` runs one of these and times
//! nothing.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use scalebricks_graph::{
    Builder, Control, Element, Frame, Ledger, Meta, Out, PacketContext, PerPacket, Registry, SlotList,
    Upstream, Verdict, Worker, agnostic, element,
};
use scalebricks_io::{Packet, PacketBuf, Pool};
use std::time::{Duration, Instant};

element! {
    /// Brings the packets in that the sink has put back.
    struct Source as "Source" { packets: std::sync::Arc<std::sync::Mutex<Vec<Packet>>>, batch: usize, }
    outputs { push "out": "Packets.", }
    hooks { Begin, }
}

element! {
    /// Takes packets out.
    struct Sink as "Sink" { packets: std::sync::Arc<std::sync::Mutex<Vec<Packet>>>, }
    inputs { push "in": "Packets.", }
}

element! {
    /// Passes a batch on whole.
    struct Whole as "Whole" {}
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", }
    makes |_| Self {},
}

element! {
    /// Looks at each packet.
    struct Touch as "Touch" {}
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", push "odd" [Optional]: "None.", }
    makes |_| Self {},
}

impl Control for Source {}
impl Control for Sink {}
impl Control for Whole {}
impl Control for Touch {}

agnostic! { Touch }

impl Element<Packet> for Source {
    fn begin(&mut self, _: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let Ok(mut packets) = self.packets.lock() else { return };
        for _ in 0..self.batch {
            let Some(slot) = packets.pop().and_then(|packet| frame.put(packet).ok()) else { return };
            out.push(0, slot);
        }
    }
}

impl Element<Packet> for Sink {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        let Ok(mut packets) = self.packets.lock() else { return };
        packets.extend(batch.drain().map(|slot| frame.take(slot)));
    }
}

impl Element<Packet> for Whole {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        out.all(0, batch);
    }
}

impl<P: PacketBuf> PerPacket<P> for Touch {
    fn each(&mut self, _: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        meta.mark = meta.mark.wrapping_add(1);
        if meta.mark == u32::MAX { Verdict::Out(1) } else { Verdict::ON }
    }
}

type Eight = (Touch, Touch, Touch, Touch, Touch, Touch, Touch, Touch);

fn worker(
    class: &str,
    row: usize,
    batch: usize,
    fuses: bool,
) -> Result<Worker<Packet>, Box<dyn std::error::Error>> {
    let mut pool = Pool::new(1_024, 100)?;
    let packets: Vec<Packet> = (0..batch).filter_map(|_| pool.packet(&[0; 64])).collect();
    let packets = std::sync::Arc::new(std::sync::Mutex::new(packets));
    let mut builder = Builder::new();
    builder
        .fuses(fuses)
        .add("first", Source { packets: packets.clone(), batch })
        .add("last", Sink { packets });
    let names: Vec<String> = (0..row).map(|at| format!("e{at}")).collect();
    for name in &names {
        builder.declare(name, class, &[]);
    }
    let all: Vec<&str> =
        ["first"].into_iter().chain(names.iter().map(String::as_str)).chain(["last"]).collect();
    builder.chain(&all);
    let mut registry = Registry::new();
    registry.add::<Whole>().add::<Touch>().fuse::<Eight>();
    Ok(Worker::new(builder.build(&registry, &mut Ledger::new())?, Box::new(pool), ()))
}

#[inline(never)] // instructions are counted by its name
fn counted(worker: &mut Worker<Packet>, turns: u32) {
    for _ in 0..turns {
        worker.turn(Duration::ZERO);
    }
}

/// Least nanoseconds a turn.
fn turn_ns(worker: &mut Worker<Packet>, runs: usize) -> f64 {
    const TURNS: u32 = 500;
    let run = || {
        let start = Instant::now();
        counted(worker, TURNS);
        start.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS)
    };
    std::iter::repeat_with(run).take(runs).fold(f64::INFINITY, f64::min)
}

/// By kind: the class, and whether it is fused.
const KINDS: [(&str, &str, bool); 3] =
    [("whole", "Whole", false), ("each", "Touch", false), ("fused", "Touch", true)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [count, kind, row, batch, turns] = &arguments[..]
        && count == "--count"
    {
        let known = KINDS.iter().find(|(name, ..)| name == kind);
        let (_, class, fuses) = known.copied().unwrap_or(("none", "Whole", false));
        counted(&mut worker(class, row.parse()?, batch.parse()?, fuses)?, turns.parse()?);
        return Ok(());
    }
    let runs = arguments.first().map_or(Ok(200), |runs| runs.parse())?;
    println!("{:>6} {:>4} {:>6} {:>10} {:>16}", "kind", "row", "batch", "ns a turn", "ns packet hop");
    for batch in [1, 8, 64] {
        let empty = turn_ns(&mut worker("Whole", 0, batch, false)?, runs);
        println!("{:>6} {:>4} {batch:>6} {empty:>10.1}", "none", 0);
        for (kind, class, fuses) in KINDS {
            for row in [1, 2, 4, 8, 16, 32] {
                if fuses && row < 8 {
                    continue;
                }
                let ns = turn_ns(&mut worker(class, row, batch, fuses)?, runs);
                let hop = (ns - empty) / row as f64 / batch as f64;
                println!("{kind:>6} {row:>4} {batch:>6} {ns:>10.1} {hop:>16.3}");
            }
        }
    }
    Ok(())
}
