//! `IPPrint`.

use crate::columns::IpHeader;
use crate::handler::boolean;
use crate::header;
use crate::printer::{Contents, Printer, line};
use crate::shared_names::{counters, handlers};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{
    Class, Control, Environment, HandlerId, Meta, PacketContext, PerPacket, Verdict, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv4::Ipv4;
use scalebricks_wire::transport::{Tcp, TcpFlags, Udp};
use scalebricks_wire::{icmp, protocol};
use std::any::Any;
use std::fmt::Write;

element! {
    /// Prints each IPv4 packet in a line such as `10.0.0.1.53 > 10.0.0.2.999: udp 20`, for debugging. Each line is a
    /// system call on the packet thread.
    pub struct IPPrint as "IPPrint" { params: IPPrintParams, printer: Printer, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs { agnostic "out": "The same.", }
    params IPPrintParams {
        /// Text at the beginning of each line.
        label: String = String::new(),
        /// How the packet's bytes are printed: `hex`, `ascii`, or `none`.
        contents: Contents = Contents::None,
        /// The same, without the IP header.
        payload: Contents = Contents::None,
        /// Most bytes printed.
        nbytes: usize = 1500,
        /// Whether the identification is printed.
        id: bool = false,
        /// Whether the TTL is printed.
        ttl: bool = false,
        /// Whether DSCP and ECN are printed.
        tos: bool = false,
        /// Whether the packet's length is printed.
        length: bool = false,
        /// Whether the time since the worker's start is printed, in seconds.
        timestamp: bool = true,
        /// Whether the paint is printed.
        paint: bool = false,
        /// Whether anything is printed.
        active: bool = true,
        /// A file to print to, created when the element begins to run. The default is standard error.
        outfile: Option<String> = None,
    }
    example { "CONTENTS hex", "OUTFILE /dev/null", }
    reads { IpHeader, }
    counters { NOT_PRINTED = counters::NOT_PRINTED, }
    handlers { read ACTIVE = handlers::PRINTS, write SET_ACTIVE = handlers::PRINTS, }
}

impl Class for IPPrint {
    fn make(params: IPPrintParams) -> Result<Self, String> {
        if params.contents != Contents::None && params.payload != Contents::None {
            return Err("CONTENTS and PAYLOAD exclude each other".to_owned());
        }
        let printer = Printer::new(params.outfile.clone());
        Ok(Self { params, printer })
    }
}

impl Control for IPPrint {
    fn read(&self, _: HandlerId) -> String {
        self.params.active.to_string()
    }

    fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.params.active = boolean(value)?;
        Ok(())
    }

    /// The new configuration decides whether it prints.
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.printer.follow(&mut before.printer);
    }
}

impl IPPrintParams {
    fn packet(&self, line: &mut String, ip: &Ipv4<'_>, paint: u8) {
        for (is_wanted, name, value) in [
            (self.paint, "paint", usize::from(paint)),
            (self.id, "id", usize::from(ip.identification())),
            (self.tos, "tos", usize::from(ip.dscp_ecn())),
            (self.ttl, "ttl", usize::from(ip.ttl())),
            (self.length, "length", ip.total_len()),
        ] {
            if is_wanted {
                let _ = write!(line, "{name} {value}, ");
            }
        }
        let (src, dst) = (ip.src(), ip.dst());
        let is_fragment = ip.more_fragments() || ip.fragment_offset() > 0;
        let payload = ip.payload();
        let known = match ip.protocol() {
            protocol if is_fragment => {
                let more = if ip.more_fragments() { "+" } else { "" };
                let (id, len, at) = (ip.identification(), payload.len(), ip.fragment_offset());
                Some(format!("{src} > {dst}: ip-proto-{protocol} (frag {id}:{len}@{at}{more})"))
            }
            protocol::UDP => Udp::parse(payload).ok().map(|udp| {
                format!("{src}.{} > {dst}.{}: udp {}", udp.src_port(), udp.dst_port(), udp.payload().len())
            }),
            protocol::TCP => Tcp::parse(payload).ok().map(|tcp| {
                let ports = format!("{src}.{} > {dst}.{}", tcp.src_port(), tcp.dst_port());
                format!("{ports}: {}", segment(ip, &tcp))
            }),
            protocol::ICMPV4 => payload
                .first_chunk::<{ icmp::HEADER_LEN }>()
                .map(|icmp| format!("{src} > {dst}: icmp type {} code {}", icmp[0], icmp[1])),
            _ => None,
        };
        let unknown = || format!("{src} > {dst}: ip-proto-{} {}", ip.protocol(), payload.len());
        line.push_str(&known.unwrap_or_else(unknown));
    }
}

/// Flags, sequence numbers, lengths, acknowledgement and window of a segment, in tcpdump's old format.
fn segment(ip: &Ipv4<'_>, tcp: &Tcp<'_>) -> String {
    let letters = [('S', TcpFlags::SYN), ('F', TcpFlags::FIN), ('R', TcpFlags::RST), ('P', TcpFlags::PSH)];
    let is_set = |flag: TcpFlags| tcp.flags().contains(flag);
    let flags: String = letters.iter().filter(|(_, flag)| is_set(*flag)).map(|(letter, _)| letter).collect();
    let flags = if flags.is_empty() { "." } else { &flags };
    let len = tcp.payload().len() + usize::from(is_set(TcpFlags::SYN)) + usize::from(is_set(TcpFlags::FIN));
    let (first, headers) = (tcp.sequence(), ip.header_len() + tcp.header_len());
    let last = first.wrapping_add(len as u32); // within one packet
    let field = |at: usize| {
        ip.payload().get(at..at + 2).map_or(0, |word| u32::from(word[0]) << 8 | u32::from(word[1]))
    };
    let (ack, window) = (field(8) << 16 | field(10), field(14));
    let ack = if is_set(TcpFlags::ACK) { format!("ack {ack} ") } else { String::new() };
    format!("{flags} {first}:{last}({len},{headers},{}) {ack}win {window}", ip.total_len())
}

impl<P: PacketBuf> PerPacket<P> for IPPrint {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let params = &self.params;
        if !params.active {
            return Verdict::ON;
        }
        let mut line = line(&params.label, params.timestamp.then_some(tally.turn().now));
        match header::packet(packet.data(), meta) {
            Some(ip) => {
                params.packet(&mut line, &ip, meta.paint);
                params.contents.add(&mut line, header::bytes(packet.data(), meta), params.nbytes);
                params.payload.add(&mut line, ip.payload(), params.nbytes);
            }
            None => line.push_str("no whole IPv4 packet"),
        }
        tally.count(Self::NOT_PRINTED, u64::from(!self.printer.print(line)));
        Verdict::ON
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.printer.open(world)
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4_of};
    use crate::test_environment::TestEnvironment;
    use scalebricks_wire::transport::udp_header;

    #[test]
    fn lines_tell_what_a_packet_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let outfiles = ["a", "b"].map(|name| format!("OUTFILE {}", path(name)));
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIPHeader", &[]).declare(
                "a",
                "IPPrint",
                &["x", "TIMESTAMP false", &outfiles[0]],
            );
            let all = [
                "ID true",
                "TTL true",
                "TOS true",
                "LENGTH true",
                "PAINT true",
                "PAYLOAD hex",
                "NBYTES 3",
                &outfiles[1],
            ];
            builder.declare("b", "IPPrint", &all).chain(&["in", "m", "a", "b", "out0"]);
        });
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "files are made when the graph is opened");
        rig.open(&mut TestEnvironment::default()).unwrap();
        let of = |protocol: u8, payload: &[u8]| ipv4_of(|header| header.protocol = protocol, payload);
        let udp = [&udp_header(53, 999, 11, 0)[..], b"abc"].concat();
        let tcp = [0, 80, 1, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x12, 1, 44, 0, 0, 0, 0, 1, 2];
        rig.send([
            of(17, &udp),
            of(6, &tcp),
            of(1, &[8, 0, 0, 0, 0, 0, 0, 0]),
            of(50, b"abcd"),
            of(17, b"short"),
            ipv4_of(|header| (header.fragment_units, header.more_fragments) = (2, true), b"12345678"),
            of(17, &udp)[..25].to_vec(),
        ]);
        rig.turn();
        let lines = std::fs::read_to_string(path("a")).unwrap();
        let expected = "\
x: 10.0.0.1.53 > 10.0.9.9.999: udp 3
x: 10.0.0.1.80 > 10.0.9.9.256: S 7:10(3,40,42) ack 9 win 300
x: 10.0.0.1 > 10.0.9.9: icmp type 8 code 0
x: 10.0.0.1 > 10.0.9.9: ip-proto-50 4
x: 10.0.0.1 > 10.0.9.9: ip-proto-17 5
x: 10.0.0.1 > 10.0.9.9: ip-proto-17 (frag 7:8@16+)
x: no whole IPv4 packet
";
        assert_eq!(lines, expected);
        let lines = std::fs::read_to_string(path("b")).unwrap();
        let first =
            "0.001000: paint 0, id 7, tos 0, ttl 64, length 31, 10.0.0.1.53 > 10.0.9.9.999: udp 3 003503";
        assert_eq!((lines.lines().next().unwrap(), rig.got(0).len()), (first, 7));
        rig.write("a", "active", "false").unwrap();
        assert_eq!(rig.read("a", "active"), "false");
    }

    #[test]
    fn whole_packet_and_payload_exclude_each_other() {
        let built = Rig::with_buffers(5, 1, |builder| {
            builder.declare("m", "MarkIPHeader", &[]).declare(
                "p",
                "IPPrint",
                &["CONTENTS hex", "PAYLOAD ascii"],
            );
            builder.chain(&["in", "m", "p", "out0"]);
        });
        assert!(built.is_err());
    }
}
