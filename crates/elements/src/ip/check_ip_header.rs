//! `CheckIPHeader`.

use crate::columns::{DstIp, IpHeader};

crate::ip_check::check_ip_header! {
    /// Checks IPv4 headers: version, lengths, checksum and, if configured, the source (RFC 1812 §5.2.2, §5.3.7).
    /// Removes what follows the packet, such as Ethernet padding. Records where the headers are, and sets the
    /// destination annotation.
    CheckIPHeader as "CheckIPHeader", CheckIPHeaderParams, true
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_of, ipv4_with_options};

    fn rig(args: &'static [&'static str]) -> Rig {
        Rig::new(2, |builder| {
            builder
                .declare("c", "CheckIPHeader", args)
                .chain(&["in", "c", "out0"])
                .connect("c", 1, "out1", 0);
        })
    }

    #[test]
    fn valid_packets_pass_without_padding() {
        let mut rig = rig(&["2"]);
        let packet = ipv4_with_options(&[1, 1, 1, 0], b"abc");
        rig.send([[b"xx", &packet[..], &[0; 20]].concat()]);
        rig.turn();
        let (bytes, meta) = rig.noted(0).remove(0);
        assert_eq!(bytes[2..], packet);
        assert_eq!((meta.l3, meta.l4, meta.length), (2, 26, 27));
    }

    #[test]
    fn every_fault_has_its_reason() {
        let change = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = ipv4(9, b"payload");
            change(&mut packet);
            let len = packet.len().min(20);
            crate::header::sum(&mut packet[..len]);
            packet
        };
        let faulty = [
            change(&|packet| packet.truncate(19)),
            change(&|packet| packet[0] = 0x65),
            change(&|packet| packet[0] = 0x44),
            change(&|packet| packet[3] = 19),
            change(&|packet| packet[3] = 28),
            ipv4_of(|header| header.fragment_units = 0x1fff, b"payload"),
            vec![],
        ];
        let mut sum = ipv4(9, b"payload");
        sum[10] ^= 1;
        let all: Vec<Vec<u8>> = faulty.into_iter().chain([sum]).collect();
        let reasons =
            ["too_short", "bad_version", "bad_header_length", "bad_length", "bad_checksum", "bad_source"];
        let mut dropping = Rig::new(1, |builder| {
            builder.declare("c", "CheckIPHeader", &[]).chain(&["in", "c", "out0"]);
        });
        dropping.send(all.clone());
        dropping.turn();
        assert_eq!(reasons.map(|reason| dropping.number("c", reason)), [2, 1, 1, 3, 1, 0]);
        let details = dropping.read("c", "drop_details");
        assert_eq!(
            details.lines().map(|line| line.split('\t').next().unwrap()).collect::<Vec<_>>(),
            ["2", "1", "1", "3", "1", "0"]
        );
        let mut telling = rig(&[]);
        telling.send(all);
        telling.turn();
        assert_eq!(
            (telling.got(1).len(), telling.number("c", "drops"), telling.number("c", "too_short")),
            (8, 8, 0)
        );
    }

    #[test]
    fn sources_are_checked_in_each_syntax() {
        let from = |src: [u8; 4], dst: [u8; 4]| {
            ipv4_of(|header| (header.src, header.dst) = (src.into(), dst.into()), b"")
        };
        let passed = |args: &'static [&'static str]| {
            let mut rig = rig(args);
            rig.send([
                from([18, 26, 4, 255], [1, 2, 3, 4]),
                from([18, 26, 4, 255], [18, 26, 4, 9]),
                from([0; 4], [1, 2, 3, 4]),
                from([255; 4], [1, 2, 3, 4]),
                from([18, 26, 4, 3], [1, 2, 3, 4]),
            ]);
            rig.turn();
            rig.got(0).iter().map(|packet| packet[15]).collect::<Vec<_>>()
        };
        assert_eq!(passed(&[]), [255, 255, 0, 255, 3]);
        assert_eq!(passed(&["INTERFACES 18.26.4.9/24 18.32.9.44/28"]), [255, 3]);
        assert_eq!(passed(&["BADSRC 18.26.4.255", "GOODDST 18.26.4.9"]), [255, 0, 255, 3]);
        assert_eq!(passed(&["18.26.4.255 1.255.255.255"]), [3]);
        assert_eq!(passed(&["18.26.4.255 1.255.255.255", "0"]), [3]);
        assert_eq!(passed(&["OFFSET 0", "18.26.4.255"]), [3]);
        assert_eq!(passed(&["14"]), []);
        for wrong in [&["x"][..], &["1", "2"], &["1.2.3.4", "1.2.3.5"], &["OFFSET 65536"]] {
            let built = Rig::with_buffers(5, 1, |builder| {
                builder.declare("c", "CheckIPHeader", wrong).chain(&["in", "c", "out0"]);
            });
            assert!(built.is_err(), "{wrong:?}");
        }
    }
}
