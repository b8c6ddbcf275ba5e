//! `Script`.

use crate::printer::Printer;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Element, Environment, Graph, HandlerId, Supply, element};
use scalebricks_io::PacketBuf;
use std::any::Any;
use std::time::Duration;

element! {
    /// Executes instructions in order while the graph runs, between turns, starting with the first turn. `wait TIME`
    /// pauses. `write ELEMENT.HANDLER VALUE` writes a handler, and `read ELEMENT.HANDLER` prints one. `print TEXT`
    /// prints a text. `stop` ends the run, `end` only the script. In values and texts, `$(ELEMENT.HANDLER)` is replaced
    /// by the handler's value. Elements of the script's compound take precedence. An instruction that fails prints the
    /// error, and execution continues. Of Click's instructions, variables, labels, jumps and files are not supported,
    /// nor are scripts that do not run from the start.
    pub struct Script as "Script" {
        instructions: Vec<Instruction>, printer: Printer, at: usize, waits_until: Option<Duration>, failed: u64, stops: bool,
    }
    params ScriptParams {
        /// The instructions in order.
        instructions: Vec<Instruction> = Vec::new(),
        /// A file to print to, created when the element begins to run. The default is standard error.
        outfile: Option<String> = None,
    }
    example { "wait 1s", "write c.reset_counts", "print $(c.count)", "stop", "OUTFILE /dev/null", }
    handlers {
        read AT = "at": "Instructions that were executed.",
        read FAILED = "failed": "Instructions that failed.",
    }
    hooks { Between, }
    makes |params| {
        let printer = Printer::new(params.outfile);
        let instructions = params.instructions;
        Self { instructions, printer, at: 0, waits_until: None, failed: 0, stops: false }
    },
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Pauses.
    Wait(Duration),
    /// Writes a handler.
    Write(Target, String),
    /// Prints a handler.
    Read(Target),
    /// Prints a text.
    Print(String),
    /// Ends the run.
    Stop,
    /// Ends the script.
    End,
}

/// A handler of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    element: String,
    handler: String,
}

impl Target {
    fn read(text: &str) -> Option<Self> {
        let (element, handler) = text.trim().split_once('.')?;
        let is_right = !element.is_empty() && !handler.is_empty();
        is_right.then(|| Self { element: element.to_owned(), handler: handler.to_owned() })
    }
}

impl Param for Instruction {
    const KIND: &'static str =
        "an instruction: wait TIME, write ELEMENT.HANDLER VALUE, read ELEMENT.HANDLER, print TEXT, stop, end";

    fn read(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "wait" => Duration::read(rest).map(Self::Wait),
            "write" => {
                let (target, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Some(Self::Write(Target::read(target)?, String::read(value.trim())?))
            }
            "read" => Target::read(rest).map(Self::Read),
            "print" => String::read(rest).map(Self::Print),
            "stop" => rest.is_empty().then_some(Self::Stop),
            "end" => rest.is_empty().then_some(Self::End),
            _ => None,
        }
    }
}

impl ListItem for Instruction {
    const KINDS: &'static str = "instructions, …";
}

/// A script's view of the graph.
struct View<'a, P> {
    /// The compounds around the script, with a trailing slash.
    scope: &'a str,
    graph: &'a mut Graph<P>,
}

impl<P: PacketBuf + 'static> View<'_, P> {
    /// Applies `f` to an element of the script's compound, or else to the element of that full name.
    fn with<T>(
        &mut self,
        element: &str,
        act: impl Fn(&mut Graph<P>, &str) -> Result<T, HandlerError>,
    ) -> Result<T, HandlerError> {
        match act(self.graph, &format!("{}{element}", self.scope)) {
            Err(HandlerError::NoElement(_)) if !self.scope.is_empty() => act(self.graph, element),
            answer => answer,
        }
    }

    fn read(&mut self, Target { element, handler }: &Target) -> Result<String, HandlerError> {
        self.with(element, |graph, element| graph.read(element, handler))
    }

    /// Replaces handlers in a text by their values.
    fn fill(&mut self, text: &str) -> Result<String, HandlerError> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("$(") {
            let wrong = || HandlerError::Value(format!("no ELEMENT.HANDLER in {text:?}"));
            let (target, after) = after.split_once(')').ok_or_else(wrong)?;
            filled.push_str(before);
            filled.push_str(&self.read(&Target::read(target).ok_or_else(wrong)?)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

impl Script {
    /// Executes instructions up to the next pause.
    fn run<P: PacketBuf + 'static>(&mut self, view: &mut View<'_, P>, now: Duration) {
        while let Some(instruction) = self.instructions.get(self.at) {
            let told = match instruction {
                Instruction::Wait(time) => {
                    let until = *self.waits_until.get_or_insert(now.saturating_add(*time));
                    if now < until {
                        return;
                    }
                    self.waits_until = None;
                    Ok(None)
                }
                Instruction::Write(Target { element, handler }, value) => {
                    view.fill(value).and_then(|value| {
                        view.with(element, |graph, element| graph.write(element, handler, &value))
                            .map(|()| None)
                    })
                }
                Instruction::Read(target) => view
                    .read(target)
                    .map(|value| Some(format!("{}.{}: {value}", target.element, target.handler))),
                Instruction::Print(text) => view.fill(text).map(Some),
                Instruction::Stop => {
                    self.stops = true;
                    Ok(None)
                }
                Instruction::End => Ok(None),
            };
            self.at = if matches!(instruction, Instruction::Stop | Instruction::End) {
                usize::MAX
            } else {
                self.at + 1
            };
            let is_done = match told {
                Ok(None) => true,
                Ok(Some(line)) => self.printer.print(line),
                Err(error) => {
                    self.printer.print(format!("script: {error}"));
                    false
                }
            };
            self.failed += u64::from(!is_done);
        }
    }
}

impl Control for Script {
    fn read(&self, handler: HandlerId) -> String {
        if handler == Self::AT {
            self.at.min(self.instructions.len()).to_string()
        } else {
            self.failed.to_string()
        }
    }

    /// An unchanged script continues; a changed one starts over.
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.printer.follow(&mut before.printer);
        if self.instructions == before.instructions {
            (self.at, self.waits_until, self.failed) = (before.at, before.waits_until, before.failed);
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for Script {
    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.printer.open(world)
    }

    fn between(&mut self, own: &str, graph: &mut Graph<P>, now: Duration) {
        let scope = own.rfind('/').and_then(|end| own.get(..=end)).unwrap_or("");
        self.run(&mut View { scope, graph }, now);
    }

    fn stops(&self) -> bool {
        self.stops
    }

    fn supply(&self) -> Option<Supply> {
        self.waits_until.map(Supply::At)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use crate::test_environment::TestEnvironment;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    fn fill<'a>(name: &'a str, instructions: &'a [&'a str]) -> impl Fn(&mut Builder<Packet>) + 'a {
        move |builder| {
            builder.declare("x/c", "Counter", &[]).declare("u", "InfiniteSource", &["LIMIT 5"]);
            builder.declare(name, "Script", instructions).chain(&["u", "x/c", "out0"]);
            builder.declare("idle", "Idle", &[]).chain(&["in", "idle"]);
        }
    }

    #[test]
    fn instructions_follow_each_other_by_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told").display().to_string();
        let outfile = format!("OUTFILE {file}");
        let instructions = [
            "read c.count",
            "wait 2ms",
            "write c.reset_counts",
            "write u.no_such 1",
            "wait 5ms",
            "print \"$(c.count) of $(u.count), $(x/c.class)\"",
            "print $(c.count",
            "stop",
            "print never",
            &outfile,
        ];
        let mut rig = Rig::new(1, fill("x/s", &instructions));
        assert!(!std::path::Path::new(&file).exists(), "it is made when the graph is opened");
        rig.open(&mut TestEnvironment::default()).unwrap();
        let told = || std::fs::read_to_string(&file).unwrap();
        rig.turn();
        assert_eq!((told().as_str(), rig.number("x/s", "at")), ("c.count: 5\n", 1));
        rig.turn();
        assert_eq!((rig.number("x/c", "count"), rig.number("x/s", "at")), (5, 1));
        assert_eq!(rig.worker.graph().supply(), Some(Supply::At(Duration::from_millis(3))));
        rig.turn();
        assert_eq!(
            (rig.number("x/c", "count"), rig.number("x/s", "at"), rig.number("x/s", "failed")),
            (0, 4, 1)
        );
        assert!(!rig.worker.graph().is_stopped());
        rig.turn_at(Duration::from_millis(20));
        assert!(
            told().ends_with("0 of 5, Counter\nscript: no ELEMENT.HANDLER in \"$(c.count\"\n"),
            "{}",
            told()
        );
        assert!(rig.worker.graph().is_stopped());
        assert_eq!(rig.number("x/s", "failed"), 2);
    }

    #[test]
    fn the_same_script_goes_on_in_a_new_graph() {
        let script = ["wait 5ms", "write c.reset_counts", "end", "stop"];
        let mut rig = Rig::new(1, fill("x/s", &script));
        rig.turn();
        rig.replace(fill("x/s", &script));
        rig.turn_at(Duration::from_millis(6));
        assert_eq!((rig.number("x/c", "count"), rig.number("x/s", "at")), (0, 4));
        rig.replace(fill("x/s", &["wait 5ms", "stop"]));
        rig.turn_at(Duration::from_millis(7));
        assert!(!rig.worker.graph().is_stopped());
        rig.turn_at(Duration::from_millis(12));
        assert!(rig.worker.graph().is_stopped());
    }

    #[test]
    fn what_is_no_instruction_is_refused() {
        for wrong in ["goto x", "wait", "wait x", "write x 5", "write .x 5", "read", "stop now", ""] {
            assert_eq!(Instruction::read(wrong), None, "{wrong}");
        }
    }
}
