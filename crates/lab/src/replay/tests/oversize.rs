//! Packets that do not fit the base-station link are fragmented or refused, depending on DF, family and MTU.

use super::build::*;
use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MOBILE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const MOBILE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 2, 0, 0, 0, 2);

/// Sets DF in an IPv4 header, which adds 0x4000 to its sum.
fn unfragmentable(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6] |= 0x40;
    let sum = u32::from(u16::from_be_bytes([packet[10], packet[11]])) + 0xffff - 0x4000;
    packet[10..12].copy_from_slice(&((sum & 0xffff) + (sum >> 16)).to_be_bytes()[2..]);
    packet
}

/// A question of each family, and answers of 1,500 octets: IPv4 with DF and without, IPv6.
fn answers() -> Vec<Vec<u8>> {
    let down = ipv4(SERVER, MOBILE, UDP, Piece::default(), &udp(53, 5000, 1_500 - 28));
    vec![
        frame(&ipv4(MOBILE, SERVER, UDP, Piece::default(), &udp(5000, 53, 30))),
        frame(&down),
        frame(&unfragmentable(down)),
        frame(&ipv6(MOBILE_V6, SERVER_V6, UDP, &udp(5001, 53, 30))),
        frame(&ipv6(SERVER_V6, MOBILE_V6, UDP, &udp(53, 5001, 1_500 - 56))),
    ]
}

#[test]
fn only_senders_that_can_send_smaller_packets_get_an_icmp_error() {
    let (_directory, file) = capture(&answers());
    // Of 1,500 octets the tunnel leaves at least 1,456, of 1,300 at most 1,264: less than IPv6 allows to name.
    for (base_station_mtu, refused, fragmented) in [(1_500, 2, 1), (1_300, 1, 2), (1_600, 0, 0)] {
        let mut options = options(&file);
        options.config.policy =
            Policy { oversize: Oversize::Icmp, base_station_mtu, ..options.config.policy };
        for run in &replay(&options).runs {
            let dropped = run.totals.dropped.get("fragmentation_needed").copied().unwrap_or(0);
            assert_eq!((dropped, run.totals.icmp_sent), (refused, refused), "MTU {base_station_mtu}");
            assert_eq!(run.totals.packets_fragmented, fragmented, "MTU {base_station_mtu}");
            assert_eq!(run.totals.packets_out, 5 - refused);
        }
    }
}

#[test]
fn no_icmp_error_is_sent_if_the_outer_packet_is_fragmented() {
    let (_directory, file) = capture(&answers());
    let mut options = options(&file);
    options.config.policy =
        Policy { oversize: Oversize::FragmentOuter, base_station_mtu: 1_300, ..options.config.policy };
    for run in &replay(&options).runs {
        assert_eq!((run.totals.packets_fragmented, run.totals.icmp_sent, run.totals.packets_out), (3, 0, 5));
    }
}

#[test]
fn the_jumbo_packet_of_the_sample_has_no_df_and_is_always_fragmented() {
    let (_directory, file) = capture(&sample::frames());
    let mut options = options(&file);
    options.config.policy.oversize = Oversize::Icmp;
    for run in &replay(&options).runs {
        assert_eq!((run.totals.icmp_sent, run.totals.packets_fragmented), (0, 1));
    }
    // The smallest links cut more: 9,000, 1,440 and 828 octets of user packets.
    options.config.policy =
        Policy { oversize: Oversize::FragmentOuter, base_station_mtu: 576, ..options.config.policy };
    for run in &replay(&options).runs {
        assert_eq!((run.totals.packets_fragmented, run.totals.fragments_made), (3, 22));
    }
}
