//! Parts of streams that wait for room in the frame.

use super::segment::Head;
use crate::columns::StreamPart;
use crate::header;
use scalebricks_flows::Tracked;
use scalebricks_graph::{Frame, Meta, SLOTS, Slot};
use scalebricks_io::PacketBuf;
use std::collections::VecDeque;

/// Slots that may be in use when another segment is made: the rest is for copies.
const MOST_USED: usize = SLOTS * 3 / 4;
/// What a part costs besides its bytes.
const PART_COST: u64 = 256;

/// What is left of a part.
#[derive(Debug)]
enum Content<P> {
    Packet(P, Meta),
    Made(Box<Head>, Vec<u8>),
}

#[derive(Debug)]
struct Entry<P> {
    tracked: Tracked,
    place: StreamPart,
    content: Content<P>,
    /// Bytes that were sent.
    sent: usize,
}

impl<P: PacketBuf> Entry<P> {
    fn cost(&self) -> u64 {
        let len = match &self.content {
            Content::Packet(packet, _) => packet.data().len(),
            Content::Made(_, bytes) => bytes.len(),
        };
        PART_COST + len as u64
    }
}

/// Why a segment cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// No slot or buffer is free now.
    NoRoom,
    /// A buffer cannot hold its headers and a byte.
    SmallBuffer,
}

/// Makes a segment with as many bytes as fit a buffer; returns its slot and how many. The headers go on behind it.
pub(crate) fn make<P: PacketBuf>(
    head: &mut Head,
    bytes: &[u8],
    frame: &mut Frame<P>,
) -> Result<(Slot, usize), Unsent> {
    if frame.used() >= MOST_USED {
        return Err(Unsent::NoRoom);
    }
    let mut packet = frame.alloc().ok_or(Unsent::NoRoom)?;
    let len = head.write(bytes, &mut packet).ok_or(Unsent::SmallBuffer)?;
    let (l3, ip_len) = head.l3();
    let total_len = packet.data().len() - l3;
    let slot = frame.put_with(packet, head.way.meta).map_err(|_| Unsent::NoRoom)?;
    header::note(frame.meta_mut(&slot), l3, ip_len, total_len);
    head.sequence = head.sequence.wrapping_add(len as u32);
    Ok((slot, len))
}

/// Parts in order.
#[derive(Debug)]
pub(crate) struct Outbox<P> {
    entries: VecDeque<Entry<P>>,
    packets: usize,
    cost: u64,
}

impl<P> Default for Outbox<P> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), packets: 0, cost: 0 }
    }
}

impl<P: PacketBuf> Outbox<P> {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all parts, with a fixed cost for each.
    pub(crate) const fn bytes(&self) -> u64 {
        self.cost
    }

    /// Packets that it keeps, without segments that are yet to be made.
    pub(crate) const fn packets(&self) -> usize {
        self.packets
    }

    fn push(&mut self, entry: Entry<P>, most: u64) -> bool {
        if self.cost + entry.cost() > most {
            return false;
        }
        self.cost += entry.cost();
        self.packets += usize::from(matches!(entry.content, Content::Packet(..)));
        self.entries.push_back(entry);
        true
    }

    /// Keeps a packet. Returns whether all parts together are within `most` bytes; otherwise it is dropped.
    pub(crate) fn keep(&mut self, of: (Tracked, StreamPart), (packet, meta): (P, Meta), most: u64) -> bool {
        let (tracked, place) = of;
        self.push(Entry { tracked, place, content: Content::Packet(packet, meta), sent: 0 }, most)
    }

    /// Keeps the bytes of a segment that is yet to be made. Returns as [`Self::keep`] does.
    pub(crate) fn keep_bytes(
        &mut self,
        (tracked, place): (Tracked, StreamPart),
        head: Box<Head>,
        bytes: &[u8],
        most: u64,
    ) -> bool {
        self.push(Entry { tracked, place, content: Content::Made(head, bytes.to_vec()), sent: 0 }, most)
    }

    /// Puts the next packet into a slot; `true` if it was made. `None` if there is none.
    pub(crate) fn next(
        &mut self,
        frame: &mut Frame<P>,
    ) -> Option<Result<(Slot, Tracked, StreamPart, bool), Unsent>> {
        if frame.used() >= MOST_USED {
            return (!self.is_empty()).then_some(Err(Unsent::NoRoom));
        }
        let mut entry = self.entries.pop_front()?;
        let cost = entry.cost();
        let Entry { tracked, place, .. } = entry;
        match entry.content {
            Content::Packet(packet, meta) => {
                (self.packets, self.cost) = (self.packets - 1, self.cost - cost);
                let slot = frame.put_with(packet, meta).map_err(|_| Unsent::NoRoom);
                Some(slot.map(|slot| (slot, tracked, place, false)))
            }
            Content::Made(ref mut head, ref bytes) => {
                let made = make(head, bytes.get(entry.sent..).unwrap_or_default(), frame);
                let is_over = match made {
                    Ok((_, len)) => {
                        entry.sent += len;
                        entry.place = after(place, len);
                        entry.sent >= bytes.len()
                    }
                    Err(Unsent::NoRoom) => false,
                    Err(Unsent::SmallBuffer) => true,
                };
                if is_over {
                    self.cost -= cost;
                } else {
                    self.entries.push_front(entry);
                }
                Some(made.map(|(slot, _)| (slot, tracked, place, true)))
            }
        }
    }

    /// Removes all packets; segments that are yet to be made are forgotten.
    pub(crate) fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        for entry in self.entries.drain(..) {
            if let Content::Packet(packet, meta) = entry.content {
                to(packet, meta);
            }
        }
        (self.packets, self.cost) = (0, 0);
    }
}

/// The place of what follows the first `len` bytes of a part.
pub(crate) const fn after(place: StreamPart, len: usize) -> StreamPart {
    StreamPart { offset: place.offset + len as u64, gap: None, is_first: false, end: place.end }
}
