//! Parses and writes headers from Ethernet to GTP-U without allocating.
//!
//! Parsing checks all lengths once; the returned views borrow the packet, and their accessors cannot fail. Writers
//! return arrays or fill a caller's buffer. No input makes a function panic.
//!
//! | module | contents |
//! |---|---|
//! | [`packet`] | the summary of an IP packet: [`parse_ip`] |
//! | [`ethernet`], [`arp`] | Ethernet II with up to two VLAN tags, ARP for IPv4 |
//! | [`ipv4`], [`ipv6`] | IP headers, options, extension headers |
//! | [`scope`] | which addresses are of one link, and to which routers forward packets |
//! | [`fragment`] | fragmenting IPv4 packets |
//! | [`transport`], [`tcp_options`] | UDP and TCP |
//! | [`icmp`], [`icmp_error`], [`icmp_echo`] | ICMP for both IP versions: types, errors and echo replies |
//! | [`nd`] | neighbour discovery for IPv6 |
//! | [`gtpu`], [`encap`] | GTPv1-U messages, and the outer headers of a G-PDU |
//! | [`esp`] | ESP headers and trailers, ESP in UDP |
//! | [`ecn`] | ECN bits of tunnels |
//! | [`rewrite`] | addresses and ports changed in place, with their checksums |
//! | [`checksum`] | the Internet checksum: full, over pseudo headers, incremental |

#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod ecn;
pub mod encap;
mod error;
pub mod esp;
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
pub mod rewrite;
pub mod scope;
pub mod tcp_options;
pub mod transport;

pub use error::{ParseError, WriteError};
pub use ethernet::{Frame, MacAddr, parse_frame};
pub use ipv4::header_checksum_ok as ipv4_header_checksum_ok;
pub use packet::{Fragment, IpPacket, IpSummary, parse_ip, parse_quoted};
