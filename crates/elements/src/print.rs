//! `Print`.

use crate::handler::boolean;
use crate::printer::{Contents, Printer, line};
use crate::shared_names::{counters, handlers};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Environment, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use std::any::Any;
use std::fmt::Write;

element! {
    /// Prints each packet's length and first bytes, for debugging. Each line is a system call on the packet thread.
    pub struct Print as "Print" {
        label: String, most: usize, contents: Contents, has_time: bool, is_active: bool, printer: Printer,
    }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    params PrintParams {
        /// Text at the beginning of each line.
        label: String = String::new(),
        /// How many bytes are printed; all if negative.
        maxlength: i64 = 24,
        /// How bytes are printed: `hex`, `ascii`, or `none`.
        contents: Contents = Contents::Hex,
        /// Whether the time since the worker's start is printed, in seconds.
        timestamp: bool = false,
        /// Whether anything is printed.
        active: bool = true,
        /// A file to print to, created when the element begins to run. The default is standard error.
        outfile: Option<String> = None,
    }
    example { "OUTFILE /dev/null", }
    counters { NOT_PRINTED = counters::NOT_PRINTED, }
    handlers { read ACTIVE = handlers::PRINTS, write SET_ACTIVE = handlers::PRINTS, }
    makes |PrintParams { label, maxlength, contents, timestamp, active, outfile }| {
        let printer = Printer::new(outfile);
        let most = usize::try_from(maxlength).unwrap_or(usize::MAX);
        Self { label, most, contents, has_time: timestamp, is_active: active, printer }
    },
}

impl Control for Print {
    fn read(&self, _: HandlerId) -> String {
        self.is_active.to_string()
    }

    fn write(&mut self, _: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.is_active = boolean(value)?;
        Ok(())
    }

    /// The new configuration decides whether it prints.
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.printer.follow(&mut before.printer);
    }
}

impl<P: PacketBuf> PerPacket<P> for Print {
    fn each(&mut self, packet: &mut P, _: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        if self.is_active {
            let mut line = line(&self.label, self.has_time.then_some(tally.turn().now));
            let _ = write!(line, "{:4}", packet.data().len());
            if self.contents != Contents::None {
                line.push_str(" |");
                self.contents.add(&mut line, packet.data(), self.most);
            }
            tally.count(Self::NOT_PRINTED, u64::from(!self.printer.print(line)));
        }
        Verdict::ON
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.printer.open(world)
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::test_environment::TestEnvironment;

    #[test]
    fn lines_tell_length_and_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let outfiles = ["a", "b", "c"].map(|name| format!("OUTFILE {}", path(name)));
        let mut rig = Rig::new(1, |builder| {
            builder.declare("a", "Print", &["c3", "6", &outfiles[0]]);
            builder.declare(
                "b",
                "Print",
                &["CONTENTS ASCII", "TIMESTAMP true", "MAXLENGTH -1", &outfiles[1]],
            );
            builder.declare("c", "Print", &["ACTIVE false", "CONTENTS none", &outfiles[2]]);
            builder.chain(&["in", "a", "b", "c", "out0"]);
        });
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "files are made when the graph is opened");
        rig.open(&mut TestEnvironment::default()).unwrap();
        rig.send(["ABCDEFGH\u{1}", "a b"]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.read("c", "active")), (2, "false".into()));
        rig.write("c", "active", "true").unwrap();
        rig.send([""]);
        rig.turn();
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        assert_eq!(read("a"), "c3:    9 | 41424344 4546\nc3:    3 | 612062\nc3:    0 |\n");
        assert_eq!(read("b"), "0.001000:    9 | ABCDEFGH .\n0.001000:    3 | a b\n0.002000:    0 |\n");
        assert_eq!((read("c"), rig.number("a", "not_printed")), ("   0\n".into(), 0));
    }

    #[test]
    fn a_file_must_be_writable() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("a", "Print", &["OUTFILE /nowhere/at/all"]).chain(&["in", "a", "out0"]);
        });
        let failed = rig.open(&mut TestEnvironment::default()).unwrap_err();
        assert_eq!((failed.len(), &*failed[0].0), (1, "a"));
        rig.send(["x"]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("a", "not_printed")), (1, 1));
    }

    #[test]
    fn a_new_graph_goes_on_in_the_same_file_and_begins_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        let fill = |file: &str, most: &'static str| {
            let outfile = format!("OUTFILE {}", path(file));
            move |builder: &mut scalebricks_graph::Builder<_>| {
                builder.declare("p", "Print", &[most, &outfile]).chain(&["in", "p", "out0"]);
            }
        };
        let mut rig = Rig::new(1, fill("x", "MAXLENGTH 1"));
        rig.open(&mut TestEnvironment::default()).unwrap();
        let turn = |rig: &mut Rig| {
            rig.send(["AB"]);
            rig.turn();
        };
        turn(&mut rig);
        rig.replace(fill("x", "MAXLENGTH 2"));
        turn(&mut rig);
        assert_eq!(read("x"), "   2 | 41\n   2 | 4142\n");
        rig.replace(fill("y", "MAXLENGTH 2"));
        turn(&mut rig);
        assert_eq!(
            (read("x").lines().count(), rig.number("p", "not_printed")),
            (2, 1),
            "it has not opened y"
        );
    }
}
