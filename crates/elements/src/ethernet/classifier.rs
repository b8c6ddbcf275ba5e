//! `Classifier`.

use crate::shared_names::drops;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Class, Control, Element, Frame, HandlerId, Out, SlotList, Verdict, element};
use scalebricks_io::PacketBuf;

/// Bytes compared at once.
const WORD: usize = 8;

/// Patterns that are asked where most look.
const MOST_COMPARED: usize = 64;

/// Most clauses in all patterns together.
const MOST_TESTS: usize = 10_000;

element! {
    /// Sends each packet to the output of the first pattern that it matches. A pattern is a list of clauses separated
    /// by blanks, such as `12/0806 20/0001`. `OFFSET/VALUE` matches a packet with these bytes at the offset; `VALUE` is
    /// hexadecimal, and a digit `?` matches any. `OFFSET/VALUE%MASK` compares only the bits that are set in `MASK`. `!`
    /// negates a clause. A clause that reaches beyond the end of a packet does not match. The pattern `-` matches every
    /// packet. Cost: up to all clauses, 8 bytes at a time.
    pub struct Classifier as "Classifier" { patterns: Vec<Pattern>, place: usize, firsts: Vec<First>, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Packets whose first matching pattern is this output's.", }
    params ClassifierParams {
        /// One pattern per output.
        patterns: Vec<Pattern> = Vec::new(),
    }
    example { "12/0806 20/0001", "!3/??0?%0070 30/010203040506070809", }
    drops { NO_MATCH = drops::NO_MATCH, }
    handlers { read PATTERNS = "patterns": "The patterns, one per line.", }
}

/// Which packets go to one output.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    clauses: Vec<Clause>,
}

/// Bytes at one place.
#[derive(Debug, Clone)]
struct Clause {
    is_negated: bool,
    /// The end of the bytes it compares.
    end: usize,
    tests: Vec<Test>,
}

/// Up to [`WORD`] bytes, as a big-endian number padded with zeros.
#[derive(Debug, Clone, Copy)]
struct Test {
    offset: usize,
    mask: u64,
    value: u64,
}

impl Test {
    /// What it says about an octet of a packet: its bits, and their values.
    fn octet(self, at: usize) -> (u8, u8) {
        let Some(place) = at.checked_sub(self.offset).filter(|place| *place < WORD) else { return (0, 0) };
        (self.mask.to_be_bytes()[place], self.value.to_be_bytes()[place])
    }

    #[inline]
    fn matches(self, data: &[u8]) -> bool {
        word(data, self.offset) & self.mask == self.value
    }
}

/// The word at an offset; zeros are after the end.
#[inline(always)]
fn word(data: &[u8], offset: usize) -> u64 {
    let rest = data.get(offset..).unwrap_or_default();
    u64::from_be_bytes(rest.first_chunk::<WORD>().map_or_else(|| padded(rest), |word| *word))
}

#[cold]
fn padded(bytes: &[u8]) -> [u8; WORD] {
    let mut word = [0; WORD];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    word
}

impl Clause {
    fn read(text: &str) -> Option<Self> {
        let (is_negated, text) = match text.strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (offset, rest) = text.split_once('/')?;
        let is_number = !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit());
        let offset: usize =
            offset.parse().ok().filter(|offset| is_number && *offset < usize::from(u16::MAX))?;
        let (value, mask) = match rest.split_once('%') {
            Some((value, mask)) => (value, digits(mask, false)?.0),
            None => (rest, vec![0xff; rest.len() / 2]),
        };
        let (value, known) = digits(value, true)?;
        if value.is_empty() || mask.len() != value.len() {
            return None;
        }
        let bytes: Vec<(u8, u8)> = value
            .iter()
            .zip(known.iter().zip(&mask))
            .map(|(value, (known, mask))| (known & mask, value & known & mask))
            .collect();
        let test = |(at, bytes): (usize, &[(u8, u8)])| {
            let number = |bytes: Vec<u8>| u64::from_be_bytes(padded(&bytes));
            let mask = number(bytes.iter().map(|(mask, _)| *mask).collect());
            let value = number(bytes.iter().map(|(_, value)| *value).collect());
            Test { offset: offset + at * WORD, mask, value }
        };
        let tests = bytes.chunks(WORD).enumerate().map(test).filter(|test| test.mask > 0).collect();
        Some(Self { is_negated, end: offset + value.len(), tests })
    }

    #[inline]
    fn matches(&self, data: &[u8]) -> bool {
        let is_there = self.end <= data.len() && self.tests.iter().all(|test| test.matches(data));
        is_there != self.is_negated
    }
}

/// Bytes, and which of their bits are given: two digits per byte.
fn digits(text: &str, may_be_unknown: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let digit = |&digit: &u8| match char::from(digit).to_digit(16) {
        Some(value) => Some((value as u8, 0xf)),
        None => (digit == b'?' && may_be_unknown).then_some((0, 0)),
    };
    let digits: Vec<(u8, u8)> = text.as_bytes().iter().map(digit).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let byte = |[(high, high_known), (low, low_known)]: &[(u8, u8); 2]| {
        (high << 4 | low, high_known << 4 | low_known)
    };
    Some(pairs.iter().map(byte).unzip())
}

impl Param for Pattern {
    const KIND: &'static str = "a pattern such as 12/0806 20/0001, or -";

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let clauses = match *words {
            [] => return None,
            ["-"] => Vec::new(),
            _ => words.iter().map(|word| Clause::read(word)).collect::<Option<_>>()?,
        };
        Some(Self { text: words.join(" "), clauses })
    }
}

impl ListItem for Pattern {
    const KINDS: &'static str = "patterns such as 12/0806 20/0001, or -, …";
}

impl Pattern {
    #[inline]
    fn matches(&self, data: &[u8]) -> bool {
        self.clauses.iter().all(|clause| clause.matches(data))
    }
}

/// What a pattern says about the word at the place where most patterns look.
#[derive(Debug, Clone, Copy)]
struct First {
    mask: u64,
    value: u64,
    /// If it says nothing about other places: the least length of a packet that matches.
    whole: Option<usize>,
}

impl Pattern {
    /// The places that it must match.
    fn places(&self) -> impl Iterator<Item = &Test> {
        self.clauses.iter().filter(|clause| !clause.is_negated).flat_map(|clause| &clause.tests)
    }

    fn first(&self, place: usize) -> First {
        let mut first = First { mask: 0, value: 0, whole: None };
        for test in self.places().filter(|test| test.offset == place) {
            // Contradictions are left to the whole pattern.
            let both = first.mask & test.mask;
            if first.value & both == test.value & both {
                (first.mask, first.value) = (first.mask | test.mask, first.value | test.value);
            }
        }
        let is_there = |test: &Test| test.offset == place && test.mask & first.mask == test.mask;
        let agrees = |test: &Test| is_there(test) && first.value & test.mask == test.value;
        if self.clauses.iter().all(|clause| !clause.is_negated && clause.tests.iter().all(agrees)) {
            first.whole = Some(self.clauses.iter().map(|clause| clause.end).max().unwrap_or(0));
        }
        first
    }
}

impl Classifier {
    fn of(patterns: Vec<Pattern>) -> Self {
        let places = || patterns.iter().take(MOST_COMPARED).filter_map(|pattern| pattern.places().next());
        let users = |place: usize| places().filter(|test| test.offset == place).count();
        let place = places().map(|test| test.offset).max_by_key(|&place| users(place)).unwrap_or(0);
        let firsts = patterns.iter().map(|pattern| pattern.first(place)).collect();
        Self { patterns, place, firsts }
    }

    /// The output of all packets of at least `least` octets that have these two octets at a place, whatever else they
    /// have; `None` if they may have several.
    pub(crate) fn output_of(&self, octets: [u8; 2], place: usize, least: usize) -> Option<usize> {
        let octets = [(place, octets[0]), (place + 1, octets[1])];
        for (output, pattern) in self.patterns.iter().enumerate() {
            let differs = |test: &Test| {
                octets.iter().any(|&(at, octet)| {
                    let (mask, value) = test.octet(at);
                    octet & mask != value
                })
            };
            if pattern.places().any(differs) {
                continue;
            }
            // Nothing but these octets decides.
            let is_decided = |test: &Test| {
                let all: u32 = octets.iter().map(|&(at, _)| test.octet(at).0.count_ones()).sum();
                all == test.mask.count_ones()
            };
            let decides = |clause: &Clause| {
                !clause.is_negated && clause.end <= least && clause.tests.iter().all(is_decided)
            };
            return pattern.clauses.iter().all(decides).then_some(output);
        }
        None
    }

    /// The first pattern that a packet matches. Most patterns are decided by one word of the packet.
    #[inline]
    fn position(&self, data: &[u8]) -> Option<usize> {
        let word = word(data, self.place);
        let mut all = self.firsts.iter().zip(&self.patterns);
        all.position(|(first, pattern)| {
            word & first.mask == first.value
                && match first.whole {
                    Some(least) => data.len() >= least,
                    None => pattern.matches(data),
                }
        })
    }
}

impl Class for Classifier {
    fn make(params: ClassifierParams) -> Result<Self, String> {
        let tests: usize = params
            .patterns
            .iter()
            .flat_map(|pattern| &pattern.clauses)
            .map(|clause| 1 + clause.tests.len())
            .sum();
        match tests {
            _ if params.patterns.is_empty() => Err("no patterns".to_owned()),
            MOST_TESTS.. => Err(format!("over {MOST_TESTS} bytes to look at")),
            _ => Ok(Self::of(params.patterns)),
        }
    }
}

impl Control for Classifier {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        let (patterns, outputs) = (self.patterns.len(), binder.outputs());
        if patterns == outputs {
            return Ok(());
        }
        Err(BindError::Refused(format!("it has {patterns} patterns, but {outputs} outputs are connected")))
    }

    fn read(&self, _: HandlerId) -> String {
        let texts: Vec<&str> = self.patterns.iter().map(|pattern| pattern.text.as_str()).collect();
        texts.join("\n")
    }
}

impl<P: PacketBuf> Element<P> for Classifier {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        out.split(batch, |slot| {
            self.position(frame.packet(slot).data()).map_or(Verdict::Drop(Self::NO_MATCH), Verdict::Out)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use proptest::prelude::*;

    fn rig(patterns: &[&str]) -> Rig {
        Rig::new(patterns.len(), |builder| {
            builder.declare("c", "Classifier", patterns).chain(&["in", "c"]);
            for at in 0..patterns.len() {
                builder.connect("c", at, &format!("out{at}"), 0);
            }
        })
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let mut rig = rig(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]);
        let frame = |ethertype: u16, operation: u16| {
            [&[0; 12][..], &ethertype.to_be_bytes(), &[0; 6], &operation.to_be_bytes()].concat()
        };
        rig.send([frame(0x806, 1), frame(0x806, 2), frame(0x806, 3), frame(0x800, 1), vec![0; 13]]);
        rig.turn();
        assert_eq!([0, 1, 2, 3].map(|end| rig.got(end).len()), [1, 1, 1, 2]);
        assert_eq!(rig.read("c", "patterns"), "12/0806 20/0001\n12/0806 20/0002\n12/0800\n-");
    }

    #[test]
    fn masks_unknown_digits_and_negation() {
        let matches = |pattern: &str, packet: &[u8]| Pattern::read(pattern).unwrap().matches(packet);
        assert!(matches("0/45%f0", &[0x4f]) && !matches("0/45%0f", &[0x4f]));
        assert!(matches("1/a?", &[0, 0xa7]) && matches("1/?7", &[0, 0xa7]) && !matches("1/?8", &[0, 0xa7]));
        assert!(matches("!0/01", &[2]) && !matches("!0/01", &[1]));
        assert!(matches("0/0102030405060708090a", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
        assert!(!matches("0/0102030405060708090b", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
        // Beyond the end nothing matches, so a negated clause does.
        assert!(!matches("1/????", &[1, 2]) && matches("!1/????", &[1, 2]) && matches("1/????", &[1, 2, 3]));
        assert!(matches("-", &[]));
    }

    #[test]
    fn wrong_patterns_and_wrong_numbers_of_outputs_are_refused() {
        for wrong in [
            "", "x", "0", "0/", "/00", "0/0", "0/0g", "-1/00", "+1/00", "0/00%", "0/00%0", "0/00%??",
            "- 0/00", "0/00 -", "65535/00",
        ] {
            assert!(Pattern::read(wrong).is_none(), "{wrong:?}");
        }
        let build = |patterns: &[&str]| {
            Rig::with_buffers(5, 2, |builder| {
                builder
                    .declare("c", "Classifier", patterns)
                    .chain(&["in", "c", "out0"])
                    .connect("c", 1, "out1", 0);
            })
            .map(drop)
            .map_err(|errors| errors.to_string())
        };
        assert_eq!(build(&["0/00"]), Err("element c: it has 1 patterns, but 2 outputs are connected".into()));
        assert_eq!(build(&["0/00", "-"]), Ok(()));
        assert!(build(&[]).unwrap_err().contains("no patterns"));
    }

    #[test]
    fn the_output_of_an_ethertype_is_known_if_nothing_else_decides() {
        let output = |patterns: &[&str]| {
            let patterns = patterns.iter().map(|text| Pattern::read(text).unwrap()).collect();
            Classifier::of(patterns).output_of([8, 0], 12, 34)
        };
        assert_eq!(output(&["12/0806 20/0001", "12/86dd", "12/0800", "-"]), Some(2));
        assert_eq!(output(&["12/08??%ff00", "12/0800"]), Some(0));
        assert_eq!(output(&["10/????0806", "-"]), Some(1));
        assert_eq!(output(&["12/0800 23/01", "12/0800"]), None);
        assert_eq!(output(&["12/080045", "-"]), None);
        assert_eq!(output(&["!12/0806", "-"]), None);
        assert_eq!(output(&["40/??", "-"]), None);
        assert_eq!(output(&["12/0806"]), None);
    }

    /// A clause, bit by bit: sign, offset, and for each digit its value, if any, and its mask.
    type Slow = (bool, usize, Vec<(Option<u8>, u8)>);

    fn slow_matches((is_negated, offset, digits): &Slow, packet: &[u8]) -> bool {
        let nibble = |at: usize| {
            let byte = packet.get(offset + at / 2)?;
            Some(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 })
        };
        let fits = |(at, (value, mask)): (usize, &(Option<u8>, u8))| match (nibble(at), value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(there), Some(value)) => {
                (0..4).all(|bit| mask >> bit & 1 == 0 || there >> bit & 1 == value >> bit & 1)
            }
        };
        digits.iter().enumerate().all(fits) != *is_negated
    }

    fn text((is_negated, offset, digits): &Slow) -> String {
        let digit = |value: Option<u8>| value.map_or("?".to_owned(), |value| format!("{value:x}"));
        let value: String = digits.iter().map(|(value, _)| digit(*value)).collect();
        let mask: String = digits.iter().map(|(_, mask)| digit(Some(*mask))).collect();
        format!("{}{offset}/{value}%{mask}", if *is_negated { "!" } else { "" })
    }

    fn clause() -> impl Strategy<Value = Slow> {
        // Few values, so that packets match.
        let value = prop_oneof![3 => (0..2u8).prop_map(Some), 1 => Just(None)];
        let mask = prop_oneof![Just(15u8), 0..16u8];
        (any::<bool>(), 0..24usize, prop::collection::vec((value, mask), 1..12))
            .prop_map(|(is_negated, offset, digits)| (is_negated, offset, [&digits[..], &digits].concat()))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn patterns_match_as_bit_by_bit(
            patterns in prop::collection::vec(prop::collection::vec(clause(), 1..4), 1..5),
            packets in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(16), Just(17)], 0..40), 1..30),
        ) {
            let fast: Vec<Pattern> = patterns
                .iter()
                .map(|clauses| Pattern::read(&clauses.iter().map(text).collect::<Vec<_>>().join(" ")).unwrap())
                .collect();
            for packet in packets {
                let slow = patterns.iter().position(|clauses| clauses.iter().all(|clause| slow_matches(clause, &packet)));
                prop_assert_eq!(fast.iter().position(|pattern| pattern.matches(&packet)), slow);
            }
        }
    }
}
