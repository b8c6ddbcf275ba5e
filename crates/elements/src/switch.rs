//! `Switch`.

use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{Binder, Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends every packet to one output, which a handler can change at runtime.
    pub struct Switch as "Switch" { output: i64, outputs: usize, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "All packets, or none.", }
    params SwitchParams {
        /// The output; a negative number drops all packets.
        output: i64 = 0,
    }
    drops { OFF = "switched_off": "The switch is set to drop all packets.", }
    handlers {
        read SWITCH = "switch": "The output, or -1.",
        write SET = "switch": "Sets the output; a negative number drops all packets.",
    }
    makes |params| Self { output: params.output, outputs: 0 },
}

impl Switch {
    fn check(output: i64, outputs: usize) -> Result<(), String> {
        match usize::try_from(output) {
            Ok(output) if output >= outputs => Err(format!("output {output} of {outputs}")),
            _ => Ok(()),
        }
    }
}

impl Control for Switch {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.outputs = binder.outputs();
        Self::check(self.output, self.outputs).map_err(BindError::Refused)
    }

    fn read(&self, _: HandlerId) -> String {
        self.output.max(-1).to_string()
    }

    fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
        let output =
            value.trim().parse().map_err(|_| HandlerError::Value(format!("no number: {value:?}")))?;
        Self::check(output, self.outputs).map_err(HandlerError::Value)?;
        self.output = output;
        Ok(())
    }
}

impl<P: PacketBuf> Element<P> for Switch {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        match usize::try_from(self.output) {
            Ok(output) => out.all(output, batch),
            Err(_) => out.drop_all(batch, Self::OFF),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    fn fill(args: &'static [&str]) -> impl Fn(&mut Builder<Packet>) {
        move |builder| {
            builder.declare("s", "Switch", args).chain(&["in", "s", "out0"]).connect("s", 1, "out1", 0);
        }
    }

    #[test]
    fn packets_go_where_it_is_set() {
        let mut rig = Rig::new(2, fill(&["1"]));
        for (n, value) in (0..).zip(["1", "0", "-3", " 1 "]) {
            rig.write("s", "switch", value).unwrap();
            rig.send([[n]]);
            rig.turn();
        }
        assert_eq!((rig.heads(0), rig.heads(1), rig.number("s", "switched_off")), (vec![1], vec![0, 3], 1));
        assert_eq!(rig.read("s", "switch"), "1");
        rig.write("s", "switch", "-3").unwrap();
        assert_eq!(rig.read("s", "switch"), "-1");
    }

    #[test]
    fn it_is_set_to_outputs_that_there_are() {
        let mut rig = Rig::new(2, fill(&[]));
        assert_eq!(rig.write("s", "switch", "2"), Err("output 2 of 2".into()));
        assert_eq!(rig.write("s", "switch", "x"), Err("no number: \"x\"".into()));
        assert_eq!(rig.read("s", "switch"), "0");
        let errors = Rig::with_buffers(5, 2, fill(&["OUTPUT 2"])).err().unwrap();
        assert_eq!(errors.to_string(), "element s: output 2 of 2");
    }
}
