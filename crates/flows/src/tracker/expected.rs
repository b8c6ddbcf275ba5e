//! The expected packet of an established connection.

use super::family::{Flows, Shared};
use super::judge::Arrived;
use super::key::Key;
use super::outcome::{Sink, Tracked};
use super::process::Family;
use super::record::{State, seen_from};
use crate::tcp;
use scalebricks_tables::dhash::Found;

/// Tracks a segment that its connection [expects](tcp::Connection::expects) and whose data is due at once: the same as
/// [`judge`](super::judge::judge). `None` for any other: nothing has changed.
///
/// Cost: three cache lines of the record.
#[inline(always)]
pub(super) fn expected<K: Key>(
    flows: &mut Flows<K>,
    found: Found,
    family: Family,
    arrived: &Arrived<'_>,
    shared: &mut Shared,
    sink: &mut impl Sink,
) -> Option<Tracked> {
    let Found { record, direction } = found;
    let Arrived { segment, payload, bytes, now, now_ns } = *arrived;
    #[cfg(test)]
    if shared.twin.0 {
        return None;
    }
    let (flow, tcp) = flows.both_mut(record);
    let is_current = now_ns.saturating_sub(flow.last_ns) <= shared.lifetime_ns(tcp::State::Established);
    if flow.tcp != tcp::State::Established || flow.is_young || !is_current {
        return None;
    }
    let is_reassembled = shared.reassembler.is_some();
    let (own, other) = seen_from(direction, &mut tcp.streams);
    let is_due = payload.is_empty() || own.is_due(segment.sequence);
    if is_reassembled && !(is_due && other.is_clear()) {
        return None;
    }
    let seconds = now.as_secs() as u32; // as `Connection::segment` has it
    if !tcp.connection.expects(direction, segment, seconds, flow.tcp) {
        return None;
    }
    flow.last_ns = flow.last_ns.max(now_ns);
    flow.packets[direction.index()] += 1;
    flow.bytes[direction.index()] += bytes as u64;
    let serial = flow.serial;
    sink.segment(serial, direction, segment, payload);
    if let Some(reassembler) = &mut shared.reassembler
        && !payload.is_empty()
    {
        reassembler.deliver(own, payload, &mut |chunk| sink.chunk(serial, direction, chunk));
    }
    #[cfg(test)]
    {
        shared.twin.1 += 1;
    }
    let state = State::Tcp(tcp::State::Established);
    Some(Tracked { family, record, serial, direction, state, is_new: false, is_related: false })
}
