//! `IPClassifier`.

use crate::columns::IpHeader;
use crate::filter::{Expression, FilterText, Program};
use crate::shared_names::{drops, handlers};
use crate::split::Destination;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends each IPv4 packet to the output of the first pattern that matches. Patterns are Click's, which are mostly
    /// those of tcpdump(1): `tcp and dst port www`, `10.0.0.0/8 and not frag`, `-` for all.
    pub struct IPClassifier as "IPClassifier" { program: Program, patterns: usize, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Packets of the pattern with this number.", }
    params IPClassifierParams {
        /// One pattern per output.
        patterns: Vec<FilterText> = Vec::new(),
    }
    example { "tcp", "-", }
    reads { IpHeader, }
    drops { NO_MATCH = drops::NO_MATCH, }
    handlers {
        read PROGRAM = handlers::PROGRAM,
        read PATTERNS = "patterns": "Number of patterns.",
    }
}

impl Class for IPClassifier {
    fn make(params: IPClassifierParams) -> Result<Self, String> {
        let read = |(number, FilterText(text)): (usize, &FilterText)| {
            Expression::parse(text).map_err(|error| format!("pattern {number}: {error}"))
        };
        let filters: Vec<_> = params.patterns.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let program = Program::new(&filters).map_err(|error| error.to_string())?;
        Ok(Self { program, patterns: filters.len() })
    }
}

impl Control for IPClassifier {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        let outputs = binder.outputs();
        if outputs == self.patterns {
            return Ok(());
        }
        Err(BindError::Refused(format!("{} patterns for {outputs} outputs", self.patterns)))
    }

    fn read(&self, handler: HandlerId) -> String {
        if handler == Self::PROGRAM { self.program.to_string() } else { self.patterns.to_string() }
    }
}

impl<P: PacketBuf> Element<P> for IPClassifier {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        crate::filter::classify(&self.program, batch, frame, out, |first| match first {
            Some(pattern) => Destination::Out(pattern as u16), // a graph has fewer ports
            None => Destination::Drop(Self::NO_MATCH),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::rig_ip::Given;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    fn fill(patterns: &'static [&'static str]) -> impl FnOnce(&mut Builder<Packet>) {
        move |builder| {
            builder.add("given", Given::default()).declare("c", "IPClassifier", patterns);
            builder.chain(&["in", "given", "c", "out0"]).connect("c", 1, "out1", 0);
        }
    }

    /// A header with these last bytes of its addresses.
    fn packet(protocol: u8, last: u8) -> Vec<u8> {
        vec![0x45, 0, 0, 20, 0, 0, 0, 0, 9, protocol, 0, 0, 10, 0, 0, last, 10, 0, 1, last]
    }

    #[test]
    fn packets_go_by_the_first_pattern_that_is_true() {
        let mut rig = Rig::new(2, fill(&["udp and 10.0.0.0/24", "\"src 10.0.0.2 or 10.0.0.4\""]));
        rig.send([packet(6, 1), packet(17, 2), packet(6, 2), packet(1, 3), packet(6, 4)]);
        rig.turn();
        let lasts =
            |packets: Vec<Vec<u8>>| packets.iter().map(|packet| (packet[9], packet[15])).collect::<Vec<_>>();
        assert_eq!((lasts(rig.got(0)), lasts(rig.got(1))), (vec![(17, 2)], vec![(6, 2), (6, 4)]));
        assert_eq!((rig.number("c", "no_match"), rig.number("c", "patterns")), (2, 2));
        assert!(rig.read("c", "program").starts_with("  0  ip[9:1] & 0xff == 0x11"));
        rig.send([packet(17, 1), packet(17, 2), vec![0x45], vec![]]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("c", "no_match")), (2, 4));
    }

    #[test]
    fn wrong_patterns_are_refused() {
        let refused = |patterns| Rig::with_buffers(5, 2, fill(patterns)).err().unwrap().to_string();
        assert_eq!(refused(&["tcp"]), "element c: 1 patterns for 2 outputs");
        assert!(
            refused(&["tcp", "port"]).contains("pattern 1: expected a port number behind `port`, at byte 4")
        );
    }
}
