//! `IPFilter`.

use crate::columns::IpHeader;
use crate::filter::{Expression, FilterText, Program};
use crate::shared_names::{drops, handlers};
use crate::split::Destination;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Executes the action of the first filter that matches an IPv4 packet: `allow` sends it to output 0, a number to
    /// that output, and `deny` or `drop` drops it. A packet that no filter matches is dropped. Patterns are those of
    /// IPClassifier.
    pub struct IPFilter as "IPFilter" { program: Program, actions: Vec<Option<u16>>, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [ZeroOrMore]: "Packets of the filters with this output.", }
    params IPFilterParams {
        /// Filters, each an action and a pattern.
        filters: Vec<FilterText> = Vec::new(),
    }
    example { "allow tcp", "1 udp", "deny all", }
    reads { IpHeader, }
    drops {
        DENIED = "denied": "A `deny` or `drop` filter matches the packet.",
        NO_MATCH = drops::NO_MATCH,
    }
    handlers {
        read PROGRAM = handlers::PROGRAM,
        read FILTERS = "filters": "Number of filters.",
    }
}

/// A filter's output, or `None` if it drops, and its pattern. Without a pattern it matches all packets.
fn filter(text: &str) -> Result<(Option<u16>, Expression), String> {
    let text = text.trim();
    let (action, pattern) = text.split_once(char::is_whitespace).unwrap_or((text, "-"));
    let action = match action {
        "allow" => Some(0),
        "deny" | "drop" => None,
        number => Some(
            number.parse().map_err(|_| format!("expected `allow`, `deny` or an output, not `{number}`"))?,
        ),
    };
    // The offset in the whole text.
    let before = text.len() - pattern.len();
    let placed = |error: crate::filter::FilterError| {
        crate::filter::FilterError { at: error.at + before, ..error }.to_string()
    };
    Ok((action, Expression::parse(pattern).map_err(placed)?))
}

impl Class for IPFilter {
    fn make(params: IPFilterParams) -> Result<Self, String> {
        let read = |(number, FilterText(text)): (usize, &FilterText)| {
            filter(text).map_err(|error| format!("filter {number}: {error}"))
        };
        let filters: Vec<_> = params.filters.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let (actions, patterns): (Vec<_>, Vec<_>) = filters.into_iter().unzip();
        let program = Program::new(&patterns).map_err(|error| error.to_string())?;
        Ok(Self { program, actions })
    }
}

impl Control for IPFilter {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        let outputs = binder.outputs();
        match self.actions.iter().flatten().find(|output| usize::from(**output) >= outputs) {
            Some(output) => Err(BindError::Refused(format!("output {output} of {outputs}"))),
            None => Ok(()),
        }
    }

    fn read(&self, handler: HandlerId) -> String {
        if handler == Self::PROGRAM { self.program.to_string() } else { self.actions.len().to_string() }
    }
}

impl<P: PacketBuf> Element<P> for IPFilter {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        crate::filter::classify(&self.program, batch, frame, out, |first| match first {
            Some(filter) => self.actions[filter].map_or(Destination::Drop(Self::DENIED), Destination::Out),
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

    fn fill<'a>(filters: &'a [&'a str]) -> impl FnOnce(&mut Builder<Packet>) + 'a {
        move |builder| {
            builder.add("given", Given::default()).declare("f", "IPFilter", filters);
            builder.chain(&["in", "given", "f", "out0"]).connect("f", 1, "out1", 0);
        }
    }

    fn packet(protocol: u8, last: u8) -> Vec<u8> {
        vec![0x45, 0, 0, 20, 0, 0, 0, 0, 9, protocol, 0, 0, 10, 0, 0, last, 10, 0, 1, last]
    }

    #[test]
    fn filters_are_tried_in_order() {
        let mut rig = Rig::new(2, fill(&["deny src 10.0.0.9", "1 udp", "allow tcp", "drop icmp"]));
        rig.send([packet(6, 9), packet(17, 1), packet(6, 2), packet(1, 3), packet(89, 4), packet(17, 9)]);
        rig.turn();
        assert_eq!([0, 1].map(|end| rig.got(end).len()), [1, 1]);
        assert_eq!(["denied", "no_match", "filters"].map(|name| rig.number("f", name)), [3, 1, 4]);
        let mut rig = Rig::new(2, fill(&["deny udp", "allow all", "allow"]));
        rig.send([packet(6, 1), packet(17, 1)]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("f", "denied")), (1, 1));
    }

    #[test]
    fn wrong_filters_are_refused() {
        let refused = |filters: &[&str]| Rig::with_buffers(5, 2, fill(filters)).err().unwrap().to_string();
        assert_eq!(refused(&["2 tcp"]), "element f: output 2 of 2");
        assert!(
            refused(&["allow tcp", "accept tcp"])
                .contains("filter 1: expected `allow`, `deny` or an output, not `accept`")
        );
        assert!(
            refused(&["deny  port x"]).contains("filter 0: expected a port number behind `port`, at byte 11")
        );
    }
}
