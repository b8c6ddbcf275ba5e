//! Specifications of element classes: Click's port counts, processing codes and flow codes.

use crate::arguments::Parameter;
use crate::problem::Side;

/// The arguments that a class accepts.
#[derive(Clone, Copy, Debug)]
pub enum Accepts {
    /// Any, but at least this many: the class parses them itself.
    Any(usize),
    /// Those of these parameters.
    Parameters(&'static [Parameter]),
}

/// The checker's knowledge of a class, in Click's notation.
#[derive(Clone, Copy, Debug)]
pub struct ClassSpec<'a> {
    /// Inputs and outputs: `1/1`, `1/1-2`, `-/1`, `1-/=`. A count is a number, a range, or open-ended; `=` means as
    /// many outputs as inputs, and each `+` adds one.
    pub ports: &'a str,
    /// One letter per input and per output, the last one for all further ones: `h` push, `l` pull, `a` agnostic.
    /// `a/ah`.
    pub processing: &'a str,
    /// The outputs by which packets of an input may leave: those with a letter in common. `x/x` means any, `x/y` none,
    /// `#/#` the one with the same number; `[ab]` is a set.
    pub flow: &'a str,
    /// Its arguments.
    pub arguments: Accepts,
    /// Whether ports below the count may stay unconnected. The builder of the element knows which ones.
    pub holes: bool,
}

impl<'a> ClassSpec<'a> {
    /// A class whose packets may leave by any output, and that accepts any arguments.
    pub const fn new(ports: &'a str, processing: &'a str) -> Self {
        Self { ports, processing, flow: "x/x", arguments: Accepts::Any(0), holes: false }
    }

    /// The same with another flow code.
    pub const fn flow(self, flow: &'a str) -> Self {
        Self { flow, ..self }
    }

    /// The same with these arguments.
    pub const fn arguments(self, arguments: Accepts) -> Self {
        Self { arguments, ..self }
    }

    /// The same, with ports that may stay unconnected.
    pub const fn holes(self) -> Self {
        Self { holes: true, ..self }
    }
}

/// Element classes by name.
pub trait Catalog {
    /// The class of this name.
    fn class(&self, name: &str) -> Option<ClassSpec<'_>>;

    /// All names, for suggesting similar ones.
    fn names(&self) -> Vec<&str>;

    /// Whether a required package is available.
    fn has_package(&self, _package: &str) -> bool {
        false
    }
}

/// A range of port counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    least: u32,
    most: Option<u32>,
}

impl Range {
    fn parse(code: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u32>().ok();
        match code.split_once('-') {
            None => number(code).map(|count| Self { least: count, most: Some(count) }),
            Some((least, most)) => {
                let least = if least.is_empty() { 0 } else { number(least)? };
                let most = if most.is_empty() { None } else { Some(number(most)?) };
                (most.is_none_or(|most| least <= most)).then_some(Self { least, most })
            }
        }
    }

    /// The allowed count closest to `used`.
    fn fit(self, used: u32) -> u32 {
        used.max(self.least).min(self.most.unwrap_or(u32::MAX))
    }
}

/// A port count such as `1/1-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortCount {
    inputs: Range,
    /// `Err(n)`: the number of inputs plus `n`.
    outputs: Result<Range, u32>,
}

impl PortCount {
    pub(super) fn parse(code: &str) -> Option<Self> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let outputs = match outputs.strip_prefix('=') {
            Some(more) if more.bytes().all(|byte| byte == b'+') => Err(u32::try_from(more.len()).ok()?),
            Some(_) => return None,
            None => Ok(Range::parse(outputs)?),
        };
        Some(Self { inputs: Range::parse(inputs)?, outputs })
    }

    /// The port counts of an element with these used ports: inputs, outputs.
    pub(super) fn fit(self, used: [u32; 2]) -> [u32; 2] {
        match self.outputs {
            Ok(outputs) => [self.inputs.fit(used[0]), outputs.fit(used[1])],
            Err(more) => {
                let inputs = self.inputs.fit(used[0].max(used[1].saturating_sub(more)));
                [inputs, inputs.saturating_add(more)]
            }
        }
    }
}

/// The processing of a port: which end initiates a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processing {
    /// The upstream end.
    Push,
    /// The downstream end.
    Pull,
    /// Determined by its connections; after a check: not determined by any.
    Agnostic,
}

impl Processing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Agnostic => "agnostic",
        }
    }
}

/// A processing code such as `a/ah`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessingCode([Vec<Processing>; 2]);

impl ProcessingCode {
    pub(super) fn parse(code: &str) -> Option<Self> {
        let side = |side: &str| -> Option<Vec<Processing>> {
            let letter = |byte| match byte {
                b'h' => Some(Processing::Push),
                b'l' => Some(Processing::Pull),
                b'a' => Some(Processing::Agnostic),
                _ => None,
            };
            side.bytes().map(letter).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
        };
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        Some(Self([side(inputs)?, side(outputs)?]))
    }

    pub(super) fn of(&self, side: Side, port: u32) -> Processing {
        let codes = &self.0[side as usize];
        codes[(port as usize).min(codes.len() - 1)]
    }
}

/// One port's part of a flow code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Letters {
    negated: bool,
    set: Vec<u8>,
    /// `#`: the port's own number.
    number: bool,
}

impl Letters {
    /// Whether the letter sets of two parts intersect, ignoring numbers.
    fn meet(&self, other: &Self) -> bool {
        match (self.negated, other.negated) {
            (false, false) => self.set.iter().any(|letter| other.set.contains(letter)),
            (false, true) => self.set.iter().any(|letter| !other.set.contains(letter)),
            (true, false) => other.meet(self),
            (true, true) => true,
        }
    }
}

/// A flow code such as `xy/x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowCode([Vec<Letters>; 2]);

impl FlowCode {
    pub(super) fn parse(code: &str) -> Option<Self> {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        Some(Self([letters(inputs)?, letters(outputs)?]))
    }

    /// Number of parts of a side; the last one covers all further ports.
    pub(super) fn parts(&self, side: Side) -> usize {
        self.0[side as usize].len()
    }

    /// Whether packets pass from the ports of one part to all of the other.
    pub(super) fn joins(&self, input: usize, output: usize) -> bool {
        self.0[0][input].meet(&self.0[1][output])
    }

    /// Whether packets pass from the ports of one part to those of the other with the same number.
    pub(super) fn joins_same(&self, input: usize, output: usize) -> bool {
        self.0[0][input].number && self.0[1][output].number
    }
}

fn letters(code: &str) -> Option<Vec<Letters>> {
    let mut all = Vec::new();
    let mut bytes = code.bytes();
    while let Some(byte) = bytes.next() {
        let mut letters = Letters::default();
        let add = |letters: &mut Letters, byte: u8| match byte {
            b'#' => letters.number = true,
            _ => letters.set.push(byte),
        };
        match byte {
            b'[' => {
                let mut closed = false;
                for (index, byte) in bytes.by_ref().enumerate() {
                    match byte {
                        b']' => closed = true,
                        b'^' if index == 0 => letters.negated = true,
                        _ => add(&mut letters, byte),
                    }
                    if closed {
                        break;
                    }
                }
                if !closed {
                    return None;
                }
            }
            b'#' => add(&mut letters, byte),
            _ if byte.is_ascii_alphabetic() => add(&mut letters, byte),
            _ => return None,
        }
        all.push(letters);
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts_are_read_as_click_reads_them() {
        let fit = |code, used| PortCount::parse(code).unwrap().fit(used);
        assert_eq!(fit("1/1", [0, 0]), [1, 1]);
        assert_eq!(fit("1/1-2", [1, 2]), [1, 2]);
        assert_eq!(fit("1/1-2", [5, 5]), [1, 2]);
        assert_eq!(fit("-/1", [7, 0]), [7, 1]);
        assert_eq!(fit("1/-", [1, 0]), [1, 0]);
        assert_eq!(fit("1-/=", [3, 2]), [3, 3]);
        assert_eq!(fit("1-/=+", [1, 4]), [3, 4]);
        assert_eq!(fit("2", [0, 9]), [2, 2]);
        assert_eq!(fit("0/0", [0, 0]), [0, 0]);
        for bad in ["", "x", "1/", "2-1/1", "1/=x", "1/1/1"] {
            assert_eq!(PortCount::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn codes_repeat_their_last_letter() {
        let code = ProcessingCode::parse("a/ah").unwrap();
        let outputs = [0, 1, 9].map(|port| code.of(Side::Output, port));
        assert_eq!(outputs, [Processing::Agnostic, Processing::Push, Processing::Push]);
        assert_eq!(ProcessingCode::parse("l").unwrap().of(Side::Output, 3), Processing::Pull);
        assert_eq!([ProcessingCode::parse("x/h"), ProcessingCode::parse("/h")], [None, None]);
    }

    #[test]
    fn flow_codes_join_ports_with_a_letter_in_common() {
        let joins = |code, input, output| FlowCode::parse(code).unwrap().joins(input, output);
        assert!(joins("x/x", 0, 0) && !joins("x/y", 0, 0));
        assert!(joins("xy/x", 0, 0) && !joins("xy/x", 1, 0));
        assert!(joins("[ab]/b", 0, 0) && !joins("[^b]/b", 0, 0) && joins("[^b]/a", 0, 0));
        assert!(FlowCode::parse("#/#").unwrap().joins_same(0, 0) && !joins("#/#", 0, 0));
        assert_eq!(
            [FlowCode::parse("[x/x"), FlowCode::parse("x/"), FlowCode::parse("x/*")],
            [None, None, None]
        );
    }
}
