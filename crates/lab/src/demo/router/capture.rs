//! The packets of a capture, as those of one input line.

use super::{LOAD_PERCENT, PORT_RATE, RouterDemoError};
use scalebricks_apps::router::mix::MixPacket;
use scalebricks_io::{CaptureReader, CapturedFrame};
use scalebricks_wire::{ethernet, parse_quoted};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Shortest and longest frame of the demonstration: UDP in IPv4.
const FRAME_BYTES: std::ops::RangeInclusive<usize> = 60..=1_514;

/// Most packets that are kept, 48 bytes each.
const PACKETS: usize = 20_000_000;

/// Flow, place in the flow and length of each IP packet of a capture. Times are scaled so that the mean rate is the load of
/// the demonstration's other lines; gaps within flows are scaled with them.
///
/// # Errors
/// [`RouterDemoError::Capture`], [`RouterDemoError::NoPackets`].
pub fn packets(path: &Path) -> Result<Vec<MixPacket>, RouterDemoError> {
    let failed = |source| RouterDemoError::Capture { path: path.to_owned(), source };
    let mut flows = HashMap::new();
    let mut packets: Vec<MixPacket> = Vec::new();
    let (mut first, mut bytes_sum) = (None, 0u64);
    for frame in CaptureReader::open(path).map_err(failed)?.take(PACKETS) {
        let CapturedFrame { timestamp, data, original_len, .. } = frame.map_err(failed)?;
        let Ok(header) = ethernet::parse_frame(&data) else { continue };
        let Some(Ok(summary)) = header.is_ip().then(|| parse_quoted(&data[header.l3_offset..])) else {
            continue;
        };
        let next = flows.len() as u64;
        let (flow, count) = flows.entry(summary.five_tuple()).or_insert((next, 0u64));
        let bytes = (original_len as usize).clamp(*FRAME_BYTES.start(), *FRAME_BYTES.end());
        let at = timestamp.saturating_sub(*first.get_or_insert(timestamp));
        packets.push(MixPacket { at, flow: *flow, number: *count, bytes });
        *count += 1;
        bytes_sum += bytes as u64;
    }
    let Some(last) = packets.iter().map(|packet| packet.at).max() else {
        return Err(RouterDemoError::NoPackets(path.to_owned()));
    };
    let wanted_ns = u128::from(bytes_sum) * 100_000_000_000 / u128::from(PORT_RATE * LOAD_PERCENT);
    let mut line_free = Duration::ZERO;
    for packet in &mut packets {
        let scaled = packet.at.as_nanos() * wanted_ns / last.as_nanos().max(1);
        // The line passes one packet at a time, in the order of the capture.
        let time = Duration::from_nanos(packet.bytes as u64 * 1_000_000_000 / PORT_RATE);
        line_free = line_free.max(Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX))) + time;
        packet.at = line_free;
    }
    Ok(packets)
}
