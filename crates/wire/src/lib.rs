//! Headers from Ethernet to GTP-U, parsed and written without allocating.
//!
//! Parsing proves all lengths once; the views it returns borrow the packet, and their accessors cannot fail.
//! Writers return arrays or fill a caller's buffer. Nothing here panics, whatever the bytes.
//!
//! | module | what it reads and writes |
//! |---|---|
//! | [`packet`] | the two calls made for each packet: [`parse_frame`] and [`parse_ip`] |
//! | [`ethernet`], [`arp`] | Ethernet II with up to two VLAN tags, ARP for IPv4 |
//! | [`ipv4`], [`ipv6`] | IP headers, options, extension headers |
//! | [`fragment`] | cutting an IPv4 packet to an MTU |
//! | [`transport`] | UDP and TCP |
//! | [`icmp`], [`icmp_error`], [`icmp_echo`] | ICMP for both versions: reading, building errors and echo replies |
//! | [`nd`] | neighbour discovery for IPv6 |
//! | [`gtpu`], [`encap`] | GTPv1-U: messages, and a whole outer stack in one go |
//! | [`checksum`] | the Internet checksum: full, over pseudo headers, incremental |

#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod encap;
mod error;
pub mod ethernet;
pub mod fragment;
pub mod gtpu;
pub mod icmp;
pub mod icmp_echo;
pub mod icmp_error;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
pub mod packet;
pub mod protocol;
pub mod transport;

pub use error::{ParseError, WriteError};
pub use ethernet::{Frame, MacAddr, parse_frame};
pub use ipv4::header_checksum_ok as ipv4_header_checksum_ok;
pub use packet::{Fragment, IpPacket, IpSummary, parse_ip, parse_quoted};
