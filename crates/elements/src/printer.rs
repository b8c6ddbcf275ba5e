//! Line output of `Print` and `IPPrint`, for debugging: a line costs an allocation and a system call on the packet
//! thread.

use scalebricks_graph::Environment;
use scalebricks_graph::args::Param;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// Which bytes of a packet are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// None.
    None,
    /// In hexadecimal, in groups of four bytes.
    Hex,
    /// As text, with unprintable characters as dots.
    Ascii,
}

impl Param for Contents {
    const KIND: &'static str = "none, hex or ascii";

    fn read(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" | "false" | "0" => Some(Self::None),
            "hex" | "true" | "1" => Some(Self::Hex),
            "ascii" => Some(Self::Ascii),
            _ => None,
        }
    }
}

impl Contents {
    /// Appends up to `most` bytes to a line.
    pub(crate) fn add(self, line: &mut String, bytes: &[u8], most: usize) {
        let (bytes, group) = (&bytes[..bytes.len().min(most)], if self == Self::Hex { 4 } else { 8 });
        for group in bytes.chunks(group).filter(|_| self != Self::None) {
            line.push(' ');
            for &byte in group {
                if self == Self::Hex {
                    let _ = write!(line, "{byte:02x}");
                } else {
                    line.push(if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' });
                }
            }
        }
    }
}

/// The output of lines: none until it is opened.
#[derive(Default)]
pub(crate) struct Printer {
    /// The file; standard error if `None`.
    outfile: Option<String>,
    to: Option<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Printer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer").field("outfile", &self.outfile).finish_non_exhaustive()
    }
}

impl Printer {
    /// Prints to a file, or to standard error.
    pub(crate) const fn new(outfile: Option<String>) -> Self {
        Self { outfile, to: None }
    }

    /// Creates the file.
    pub(crate) fn open<P>(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.to = Some(match &self.outfile {
            Some(file) => world.print(file.as_ref())?,
            None => Box::new(io::stderr()),
        });
        Ok(())
    }

    /// Continues in its predecessor's file, unless it has its own.
    pub(crate) fn follow(&mut self, before: &mut Self) {
        if self.to.is_none() && self.outfile == before.outfile {
            self.to = before.to.take();
        }
    }

    /// Prints a line immediately. `false` if that failed.
    pub(crate) fn print(&mut self, mut line: String) -> bool {
        line.push('\n');
        self.to.as_mut().is_some_and(|to| to.write_all(line.as_bytes()).is_ok())
    }
}

/// The start of a line: a label, and seconds since the worker's start.
pub(crate) fn line(label: &str, time: Option<Duration>) -> String {
    let mut line = String::new();
    if !label.is_empty() {
        let _ = write!(line, "{label}: ");
    }
    if let Some(time) = time {
        let _ = write!(line, "{}.{:06}: ", time.as_secs(), time.subsec_micros());
    }
    line
}
