//! Builds ICMP errors from any packet, and parses the quotes of any ICMP message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_wire::icmp_error::{
    MAX_V4_LEN, MAX_V6_LEN, destination_unreachable, fragmentation_needed, packet_too_big,
};
use scalebricks_wire::{parse_ip, parse_quoted};

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_quoted(bytes);
    let Ok(original) = parse_ip(bytes) else { return };
    let _ = original.quoted();
    let mut out = [0; MAX_V6_LEN];
    let v4 = [192, 0, 2, 1].into();
    if let Ok(len) = fragmentation_needed(bytes, v4, 1400, &mut out) {
        assert!(len <= MAX_V4_LEN);
        quotes(&out[..len], &original);
    }
    if let Ok(len) = packet_too_big(bytes, 1.into(), 1400, &mut out) {
        quotes(&out[..len], &original);
    }
    let _ = destination_unreachable(bytes, v4.into(), 1, &mut out);
});

/// Asserts that the bytes are an ICMP error to the sender of `original` that quotes it.
fn quotes(error: &[u8], original: &scalebricks_wire::IpPacket<'_>) {
    let error = parse_ip(error).unwrap();
    assert_eq!(error.summary.dst, original.summary.src);
    assert_eq!(error.quoted().unwrap().unwrap().dst, original.summary.dst);
}
