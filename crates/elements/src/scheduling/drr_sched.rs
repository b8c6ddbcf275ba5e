//! `DRRSched`.

use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Class, Control, Element, Frame, Meta, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;
use std::any::Any;
use std::mem::swap;

/// An input: its waiting packet, and the bytes that it may send in this round.
#[derive(Debug)]
struct Input<P> {
    head: Option<(P, Meta)>,
    deficit: usize,
}

impl<P> Default for Input<P> {
    fn default() -> Self {
        Self { head: None, deficit: 0 }
    }
}

element! {
    /// Shares the pulled bytes fairly among the inputs: deficit round robin (Shreedhar, Varghese, SIGCOMM'95). Each
    /// round an input may send `QUANTUM` more bytes; unused bytes carry over to the next round while it has packets. It
    /// holds at most one packet per input.
    pub struct DRRSched<P> as "DRRSched" { inputs: Vec<Input<P>>, next: usize, quantum: usize, one: SlotList, }
    inputs { pull "in" [OneOrMore]: "Packets.", }
    outputs { pull "out": "Packets of all inputs.", }
    fresh { "out", }
    params DRRSchedParams {
        /// Bytes that each input may send per round. Cost: a packet may take as many rounds as its length divided by
        /// this.
        quantum: usize = 500,
    }
}

impl<P: PacketBuf> Class for DRRSched<P> {
    fn make(params: DRRSchedParams) -> Result<Self, String> {
        if params.quantum == 0 {
            return Err("QUANTUM must be at least 1".to_owned());
        }
        Ok(Self { inputs: Vec::new(), next: 0, quantum: params.quantum, one: SlotList::new() })
    }
}

impl<P: PacketBuf + 'static> Control for DRRSched<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.inputs.resize_with(binder.inputs(), Input::default);
        if let Some(first) = self.inputs.first_mut() {
            first.deficit = self.quantum;
        }
        Ok(())
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if before.inputs.len() == self.inputs.len() {
            swap(&mut self.inputs, &mut before.inputs);
            self.next = before.next;
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for DRRSched<P> {
    fn held(&self) -> usize {
        self.inputs.iter().filter(|input| input.head.is_some()).count()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.inputs
            .iter_mut()
            .filter_map(|input| input.head.take())
            .for_each(|(packet, meta)| to(packet, meta));
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
        let end = into.len() + want;
        let mut empty = 0;
        while into.len() < end && empty < self.inputs.len() {
            let (number, inputs) = (self.next, self.inputs.len());
            let Some(input) = self.inputs.get_mut(number) else { return };
            if input.head.is_none() && upstream.pull(number, 1, &mut self.one, frame, out) > 0 {
                input.head = self.one.drain().next().map(|slot| {
                    let meta = *frame.meta(&slot);
                    (frame.take(slot), meta)
                });
            }
            match input.head.take() {
                None => {
                    input.deficit = 0;
                    empty += 1;
                }
                Some((packet, meta)) if packet.data().len() <= input.deficit => {
                    let bytes = packet.data().len();
                    match frame.put_with(packet, meta) {
                        Ok(slot) => into.push(slot),
                        Err(packet) => {
                            input.head = Some((packet, meta));
                            return;
                        }
                    }
                    input.deficit -= bytes;
                    empty = 0;
                    continue;
                }
                head => {
                    input.head = head;
                    empty = 0;
                }
            }
            self.next = (number + 1) % inputs;
            if let Some(next) = self.inputs.get_mut(self.next) {
                next.deficit = next.deficit.saturating_add(self.quantum);
            }
        }
    }
}
