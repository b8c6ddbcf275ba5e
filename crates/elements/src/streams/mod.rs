//! TCP streams as segments in order: what `TCPStream` is made of.

mod collector;
mod outbox;
mod segment;

pub(crate) use collector::{Collector, Fate, Output, Part, Source, WayColumns};
pub(crate) use outbox::{Outbox, Unsent, after, make};
pub(crate) use segment::MOST_LINK;
