//! Frames in line for an outside port.

use scalebricks_io::{BURST, Burst, PacketBuf, TxPort};

/// Frames in line for an outside port.
pub(crate) struct Line<P> {
    pub(crate) burst: Burst<P>,
    /// A bit for each place in the burst: the frame there does not stand for a packet that was counted as sent
    /// ([`FrameKind::Other`](crate::local::FrameKind::Other)).
    pub(crate) others: u32,
}

/// Each place in a burst has its bit.
const _: () = assert!(BURST <= u32::BITS as usize);

impl<P> Default for Line<P> {
    fn default() -> Self {
        Self { burst: Burst::new(), others: 0 }
    }
}

impl<P: PacketBuf> Line<P> {
    /// Notes that the frame that is put in line next stands for no packet.
    pub(crate) fn note_other(&mut self) {
        self.others |= 1 << self.burst.len(); // not full: a full one is flushed at once
    }

    /// As [`send`], of what is in line.
    pub(crate) fn flush(
        &mut self,
        link: Option<&mut (impl TxPort<P> + ?Sized)>,
        refused: impl FnMut(P, bool),
    ) -> usize {
        send(&mut self.burst, &mut self.others, link, refused)
    }
}

/// Sends a burst, by no port if there is none. What was not sent goes to `refused`, in order, with whether it stands for a packet.
/// Returns how many packets were sent. `others` are as in a [`Line`].
pub(crate) fn send<P: PacketBuf>(
    burst: &mut Burst<P>,
    others: &mut u32,
    link: Option<&mut (impl TxPort<P> + ?Sized)>,
    mut refused: impl FnMut(P, bool),
) -> usize {
    let in_line = burst.len();
    if let Some(link) = link {
        link.tx_burst(burst);
    }
    let sent = in_line - burst.len(); // the first ones
    let others = std::mem::take(others);
    let is_other = |place: usize| others & 1 << place != 0;
    for (place, packet) in (sent..).zip(burst.drain(..)) {
        refused(packet, !is_other(place));
    }
    let sent_others = others & ((1u64 << sent) - 1) as u32; // at most 32 places
    sent - sent_others.count_ones() as usize
}
