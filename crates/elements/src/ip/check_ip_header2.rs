//! `CheckIPHeader2`.

use crate::columns::{DstIp, IpHeader};

crate::ip_check::check_ip_header! {
    /// Like `CheckIPHeader`, but verifies checksums only on request.
    CheckIPHeader2 as "CheckIPHeader2", CheckIPHeader2Params, false
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4};

    #[test]
    fn checksums_are_checked_if_asked_for() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("a", "CheckIPHeader2", &[]).declare("b", "CheckIPHeader2", &["CHECKSUM true"]);
            builder.chain(&["in", "a", "b", "out0"]);
        });
        let mut packet = ipv4(9, b"payload");
        packet[10] ^= 1;
        rig.send([packet, ipv4(9, b"")]);
        rig.turn();
        assert_eq!(
            (rig.got(0).len(), rig.number("b", "bad_checksum"), rig.number("b", "packets")),
            (1, 1, 2)
        );
    }
}
