//! The filter parser accepts any text or refuses it with a place in it. For any packet, the compiled filters and their
//! interpreter give the same result.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_elements::filter::{Expression, Packet, Program};

// Filters, one per line; a packet follows the first zero octet.
fuzz_target!(|bytes: &[u8]| {
    let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (texts, packet) = bytes.split_at(zero);
    let Ok(texts) = std::str::from_utf8(texts) else { return };
    let mut filters = Vec::new();
    for text in texts.lines() {
        match Expression::parse(text) {
            Ok(filter) => filters.push(filter),
            Err(error) => {
                assert!(text.is_char_boundary(error.at), "{text}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
    let Ok(program) = Program::new(&filters) else { return };
    assert!(!program.to_string().is_empty());
    let header = packet.get(1..).unwrap_or_default();
    let behind = header.first().map_or(0, |first| usize::from(first & 0xF) * 4);
    let packet = Packet { header, transport: header.get(behind..).unwrap_or_default() };
    let first = filters.iter().position(|filter| filter.matches(packet));
    assert_eq!(program.first(packet), first, "{texts}");
});
