//! The protocol, without sockets: bytes in, a reply for each command (Click's manual page `ControlSocket(n)`, version
//! 1.3).

use std::fmt::Display;

/// Most bytes in a line.
pub const LINE_BYTES: usize = 64 * 1024;

/// Most bytes of data after a line.
pub const DATA_BYTES: usize = 1 << 20;

/// The server's first line.
pub const GREETING: &str = "Click::ControlSocket/1.3\r\n";

/// Reply codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The command was executed.
    Ok = 200,
    /// The command was executed, with a warning.
    OkWithWarnings = 220,
    /// A syntax error.
    Syntax = 500,
    /// The command is not implemented.
    Unimplemented = 501,
    /// There is no such element.
    NoElement = 510,
    /// There is no such handler.
    NoHandler = 511,
    /// The handler failed.
    Handler = 520,
    /// The data is too large.
    TooLarge = 521,
    /// Access is denied.
    Permission = 530,
}

/// Why a request to a handler failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reply code.
    pub code: Code,
    /// The reason.
    pub why: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(code: Code, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

/// The handlers of a router, by the names that clients use.
pub trait Handlers {
    /// Calls a read handler.
    ///
    /// # Errors
    /// [`Refusal`].
    fn read(&mut self, handler: &str, parameters: &[u8]) -> Result<Vec<u8>, Refusal>;

    /// Calls a write handler. A returned text is a warning.
    ///
    /// # Errors
    /// [`Refusal`].
    fn write(&mut self, handler: &str, data: &[u8]) -> Result<Option<String>, Refusal>;

    /// Checks whether such a handler exists for reading or writing.
    ///
    /// # Errors
    /// [`Refusal`].
    fn check(&mut self, handler: &str, is_write: bool) -> Result<(), Refusal>;
}

/// What a command does once its data has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    Write,
    /// Nothing: the reply is that it is not implemented.
    Llrpc,
}

/// The data that a command waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpectedData {
    Bytes(usize),
    /// All lines before one that equals this, ignoring trailing blanks; and how far the search has come.
    Until(Vec<u8>, usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    action: Action,
    handler: String,
    wants: ExpectedData,
}

/// The server side of one client's session.
#[derive(Debug, Default)]
pub struct ClientSession {
    bytes: Vec<u8>,
    /// Bytes already processed.
    done: usize,
    /// The previous line ended in CR: a following LF belongs to its end.
    after_cr: bool,
    pending: Option<Pending>,
    is_closed: bool,
}

/// A reply of one line.
fn reply(code: Code, words: impl Display) -> Vec<u8> {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let words: String = words.to_string().chars().map(plain).collect();
    format!("{} {words}\r\n", code as u16).into_bytes()
}

/// A reply of two lines, the second being another component's message.
fn told(code: Code, words: &str, why: &str) -> Vec<u8> {
    let mut both = reply(code, words);
    if let Some(blank) = both.get_mut(3) {
        *blank = b'-';
    }
    both.extend(reply(code, why));
    both
}

impl ClientSession {
    /// A new client.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to close the connection once the replies are sent.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds received bytes. Then call [`next`](Self::next) until it returns `None`.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.done);
        self.done = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Executes the next command and returns its reply. `None` if more bytes are needed.
    pub fn next(&mut self, handlers: &mut dyn Handlers) -> Option<Vec<u8>> {
        loop {
            if self.is_closed {
                return None;
            }
            if let Some(pending) = self.pending.take() {
                return self.complete(pending, handlers);
            }
            let line = match self.line()? {
                Ok(line) => line,
                Err(reply) => return Some(reply),
            };
            if let Some(reply) = self.command(&line, handlers) {
                return Some(reply);
            }
        }
    }

    fn close(&mut self, code: Code, words: &str) -> Vec<u8> {
        self.is_closed = true;
        reply(code, words)
    }

    fn rest(&mut self) -> &[u8] {
        if let (true, Some(&next)) = (self.after_cr, self.bytes.get(self.done)) {
            self.done += usize::from(next == b'\n');
            self.after_cr = false;
        }
        &self.bytes[self.done..]
    }

    /// The next line without its terminator: CR, LF or both.
    fn line(&mut self) -> Option<Result<String, Vec<u8>>> {
        let rest = self.rest();
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        if end.unwrap_or(rest.len()) > LINE_BYTES {
            return Some(Err(self.close(Code::Syntax, "Line too long")));
        }
        let end = end?;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.after_cr = rest[end] == b'\r';
        self.done += end + 1;
        Some(Ok(line))
    }

    fn command(&mut self, line: &str, handlers: &mut dyn Handlers) -> Option<Vec<u8>> {
        let mut words = line.split_ascii_whitespace();
        let command = words.next()?.to_ascii_uppercase();
        let handler = words.next().map(str::to_owned);
        // The text after the handler, with inner blanks kept.
        let behind = words.next().map_or("", |word| {
            let at = word.as_ptr().addr().saturating_sub(line.as_ptr().addr());
            line.get(at..).unwrap_or_default().trim_end()
        });
        let further = behind.split_ascii_whitespace().count();
        let arguments = || Some(reply(Code::Syntax, "Wrong number of arguments"));
        match (command.as_str(), handler) {
            ("READ" | "GET", Some(handler)) => Some(read(&handler, behind.as_bytes(), handlers)),
            ("WRITE" | "SET", Some(handler)) => Some(write(&handler, behind.as_bytes(), handlers)),
            (name @ ("READDATA" | "WRITEDATA" | "SETDATA" | "LLRPC"), Some(handler)) => {
                let action = match name {
                    "READDATA" => Action::Read,
                    "LLRPC" => Action::Llrpc,
                    _ => Action::Write,
                };
                let count = match further {
                    0 if action == Action::Llrpc => Ok(0),
                    1 => behind.parse::<usize>(),
                    _ => return arguments(),
                };
                match count {
                    Ok(count) if count > DATA_BYTES => Some(self.close(Code::TooLarge, "Data too large")),
                    Ok(count) => self
                        .complete(Pending { action, handler, wants: ExpectedData::Bytes(count) }, handlers),
                    Err(_) => Some(reply(Code::Syntax, format!("Syntax error in '{name}'"))),
                }
            }
            (name @ ("READUNTIL" | "WRITEUNTIL"), Some(handler)) => {
                let action = if name == "READUNTIL" { Action::Read } else { Action::Write };
                let wants = ExpectedData::Until(behind.as_bytes().to_vec(), 0);
                self.complete(Pending { action, handler, wants }, handlers)
            }
            (name @ ("CHECKREAD" | "CHECKWRITE"), Some(handler)) if further == 0 => {
                let is_write = name == "CHECKWRITE";
                let kind = if is_write { "Write" } else { "Read" };
                Some(match handlers.check(&handler, is_write) {
                    Ok(()) => reply(Code::Ok, format!("{kind} handler '{handler}' OK")),
                    Err(refusal) => reply(refusal.code, refusal.why),
                })
            }
            ("QUIT" | "CLOSE", None) => Some(self.close(Code::Ok, "Goodbye!")),
            ("HELP", _) => Some(help()),
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA" | "LLRPC"
                | "READUNTIL" | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "QUIT" | "CLOSE",
                _,
            ) => arguments(),
            (other, _) => {
                let other: String = other.chars().take(80).collect();
                Some(reply(Code::Unimplemented, format!("Command '{other}' unimplemented")))
            }
        }
    }

    /// Executes a command if its data has arrived; otherwise it keeps waiting.
    fn complete(&mut self, pending: Pending, handlers: &mut dyn Handlers) -> Option<Vec<u8>> {
        let rest = self.rest();
        let Pending { action, handler, mut wants } = pending;
        // Bytes of data, and of the whole command.
        let found = match &mut wants {
            ExpectedData::Bytes(count) => (rest.len() >= *count).then_some((*count, *count)),
            ExpectedData::Until(terminator, seen) => until(rest, terminator, seen),
        };
        let Some((data, taken)) = found else {
            if rest.len() > DATA_BYTES {
                return Some(self.close(Code::TooLarge, "Data too large"));
            }
            self.pending = Some(Pending { action, handler, wants });
            return None;
        };
        let data = rest[..data].to_vec();
        self.done += taken;
        self.after_cr = matches!(wants, ExpectedData::Until(..))
            && self.bytes.get(self.done.wrapping_sub(1)) == Some(&b'\r');
        Some(match action {
            Action::Read => read(&handler, &data, handlers),
            Action::Write => write(&handler, &data, handlers),
            Action::Llrpc => reply(Code::Unimplemented, format!("Cannot call LLRPC '{handler}' remotely")),
        })
    }
}

/// The bytes before a terminator line, and including it. `seen` records how far no terminator was found.
fn until(bytes: &[u8], terminator: &[u8], seen: &mut usize) -> Option<(usize, usize)> {
    loop {
        let rest = bytes.get(*seen..)?;
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
        let line = rest[..end].trim_ascii_end();
        // Both bytes of a CRLF belong to the data before the next line; after a trailing CR it is not known yet.
        let is_crlf = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
        let next = *seen + end + 1 + usize::from(is_crlf);
        if line == terminator {
            return Some((*seen, next));
        }
        if rest[end] == b'\r' && rest.len() == end + 1 {
            return None;
        }
        *seen = next;
    }
}

fn read(handler: &str, parameters: &[u8], handlers: &mut dyn Handlers) -> Vec<u8> {
    match handlers.read(handler, parameters) {
        Ok(data) => {
            let mut answer = reply(Code::Ok, format!("Read handler '{handler}' OK"));
            answer.extend(format!("DATA {}\r\n", data.len()).into_bytes());
            answer.extend(data);
            answer
        }
        Err(refusal) => reply(refusal.code, refusal.why),
    }
}

fn write(handler: &str, data: &[u8], handlers: &mut dyn Handlers) -> Vec<u8> {
    match handlers.write(handler, data) {
        Ok(None) => reply(Code::Ok, format!("Write handler '{handler}' OK")),
        Ok(Some(warning)) => {
            told(Code::OkWithWarnings, &format!("Write handler '{handler}' OK with warnings:"), &warning)
        }
        Err(Refusal { code: Code::Handler, why }) => {
            told(Code::Handler, &format!("Write handler '{handler}' error:"), &why)
        }
        Err(refusal) => reply(refusal.code, refusal.why),
    }
}

fn help() -> Vec<u8> {
    let lines = [
        "Commands supported:",
        "READ handler [arg...]   call read handler, return DATA",
        "READDATA handler len    call read handler with len data bytes, return DATA",
        "READUNTIL handler term  call read handler, take data until term, return DATA",
        "WRITE handler [arg...]  call write handler",
        "WRITEDATA handler len   call write handler, pass len data bytes",
        "WRITEUNTIL handler term call write handler, take data until term",
        "CHECKREAD handler       check if read handler is valid",
        "CHECKWRITE handler      check if write handler is valid",
        "QUIT                    close connection",
    ];
    let last = lines.len() - 1;
    let line = |(at, line): (usize, &&str)| format!("200{}{line}\r\n", if at < last { '-' } else { ' ' });
    lines.iter().enumerate().map(line).collect::<String>().into_bytes()
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
