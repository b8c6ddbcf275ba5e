//! Elements that pull packets at a rate, in packets or bytes.

use crate::pace::Pace;
use scalebricks_graph::{Frame, Out, SlotList, Upstream};
use scalebricks_io::PacketBuf;

/// The unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Packets,
    Bytes,
}

/// Pulls up to `want` due packets from input 0; returns how many came. A packet is due while any byte is; its excess
/// bytes delay the next packet.
pub(crate) fn pull<P: PacketBuf + 'static>(
    pace: &mut Pace,
    unit: Unit,
    want: usize,
    into: &mut SlotList,
    upstream: &mut Upstream<'_, P>,
    frame: &mut Frame<P>,
    out: &mut Out<'_>,
) -> usize {
    let start = into.len();
    let due = pace.due(out.now());
    if unit == Unit::Packets {
        pace.spend(upstream.pull(0, want.min(due), into, frame, out) as u64);
        return into.len() - start;
    }
    while into.len() - start < want && pace.due(out.now()) > 0 {
        let next = into.len();
        if upstream.pull(0, 1, into, frame, out) == 0 {
            break;
        }
        let bytes = |slot| frame.packet(slot).data().len() as u64;
        pace.spend(into.iter().skip(next).map(bytes).sum());
    }
    into.len() - start
}

/// Declares a class that packets are pulled through at a rate: its documentation, name, parameters' name, unit, type of
/// rate, its description, and an example.
macro_rules! shaper {
    (
        $(#[doc = $doc:literal])+
        $name:ident as $class:literal, $params:ident, $unit:ident of $rate:ty: $text:literal, $example:literal
    ) => {
        use crate::pace::Pace;
        use scalebricks_graph::element::HandlerError;
        use scalebricks_graph::{
            Control, Element, Frame, HandlerId, SlotList, Out, Upstream, element,
        };
        use scalebricks_io::PacketBuf;
        use std::any::Any;

        element! {
            $(#[doc = $doc])+
            pub struct $name as $class { pace: Pace, }
            inputs { pull "in": "Packets.", }
            outputs { pull "out": "The same, no faster.", }
            params $params {
                #[doc = $text]
                rate: $rate,
            }
            example { $example, }
            handlers {
                read RATE = "rate": $text,
                write SET_RATE = "rate": "Sets the rate.",
            }
            makes |params| Self { pace: Pace::new(params.rate.into()) },
        }

        impl Control for $name {
            fn read(&self, _: HandlerId) -> String {
                self.pace.per_second().to_string()
            }

            fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
                self.pace.write::<$rate>(value)
            }

            fn take_over(&mut self, before: &mut dyn Any) {
                let Some(before) = before.downcast_mut::<Self>() else { return };
                self.pace = before.pace.at_rate_of(&self.pace);
            }
        }

        impl<P: PacketBuf + 'static> Element<P> for $name {

            fn pull(
                &mut self,
                _: usize,
                want: usize,
                into: &mut SlotList,
                upstream: &mut Upstream<'_, P>,
                frame: &mut Frame<P>,
                out: &mut Out<'_>,
            ) {
                crate::paced::pull(&mut self.pace, crate::paced::Unit::$unit, want, into, upstream, frame, out);
            }
        }
    };
}

/// Declares a class that pulls packets at a rate and pushes them on, in the same way as `shaper`.
macro_rules! rated_unqueue {
    (
        $(#[doc = $doc:literal])+
        $name:ident as $class:literal, $params:ident, $unit:ident of $rate:ty: $text:literal, $example:literal
    ) => {
        use crate::gate::{Gate, gated};
        use crate::pace::Pace;
        use scalebricks_graph::element::HandlerError;
        use scalebricks_graph::{Control, Element, Frame, HandlerId, SlotList, Out, Upstream};
        use scalebricks_io::PacketBuf;
        use std::any::Any;

        gated! {
            $(#[doc = $doc])+
            pub struct $name as $class { batch: SlotList, pace: Pace, }
            inputs { pull "in": "Packets.", }
            outputs { push "out": "The same.", }
            params $params {
                #[doc = $text]
                rate: $rate,
                /// Total number of packets; unlimited if negative.
                limit: i64 = -1,
                /// Whether it is active from the start.
                active: bool = true,
            }
            example { $example, }
            handlers {
                reset "reset",
                read RATE = "rate": $text,
                write SET_RATE = "rate": "Sets the rate.",
            }
            makes |$params { rate, limit, active }| Self {
                gate: Gate::new(active, limit), batch: SlotList::new(), pace: Pace::new(rate.into()),
            },
        }

        impl Control for $name {
            fn read(&self, handler: HandlerId) -> String {
                if handler == Self::RATE { self.pace.per_second().to_string() } else { self.read_gate(handler) }
            }

            fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
                if handler == Self::SET_RATE {
                    return self.pace.write::<$rate>(value);
                }
                self.write_gate(handler, value)
            }

            fn take_over(&mut self, before: &mut dyn Any) {
                let Some(before) = before.downcast_mut::<Self>() else { return };
                self.gate.take_over(before.gate);
                self.pace = before.pace.at_rate_of(&self.pace);
            }
        }

        impl<P: PacketBuf + 'static> Element<P> for $name {
            fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
                if out.is_blocked() {
                    return;
                }
                let want = self.gate.left().min(out.intake(frame.used()));
                let (pace, unit) = (&mut self.pace, crate::paced::Unit::$unit);
                self.gate.pass(crate::paced::pull(pace, unit, want, &mut self.batch, upstream, frame, out) as u64);
                out.all(0, &mut self.batch);
            }
        }
    };
}

pub(crate) use {rated_unqueue, shaper};
