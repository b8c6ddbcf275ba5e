//! ECN bits of tunnels (RFC 6040).

/// The ECN bits of a DSCP and ECN octet.
pub const MASK: u8 = 0b11;
/// Not ECN-capable transport.
pub const NOT_ECT: u8 = 0b00;
/// ECN-capable transport, codepoint 1.
pub const ECT1: u8 = 0b01;
/// ECN-capable transport, codepoint 0.
pub const ECT0: u8 = 0b10;
/// Congestion experienced.
pub const CE: u8 = 0b11;

/// The DSCP and ECN octet of an inner header after the outer header was removed (RFC 6040 §4.2, figure 4). Keeps the
/// DSCP. `None`: the packet must be dropped, since a congestion mark would be lost.
#[inline]
#[must_use]
pub const fn decapsulate(inner: u8, outer: u8) -> Option<u8> {
    let ecn = match (inner & MASK, outer & MASK) {
        (NOT_ECT, CE) => return None,
        (NOT_ECT, _) => NOT_ECT,
        (CE, _) | (_, CE) => CE,
        (ECT0, ECT1) => ECT1,
        (inner, _) => inner,
    };
    Some(inner & !MASK | ecn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_combine_as_in_figure_4() {
        let outer = [NOT_ECT, ECT0, ECT1, CE];
        let rows = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT0, [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)]),
            (ECT1, [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)]),
            (CE, [Some(CE); 4]),
        ];
        for (inner, expected) in rows {
            let combined = outer.map(|outer| decapsulate(0xb8 | inner, 0x28 | outer));
            assert_eq!(combined, expected.map(|ecn| ecn.map(|ecn| 0xb8 | ecn)), "{inner:#04b}");
        }
    }
}
