//! The options of TCP segments that trackers of connections need (RFC 9293 §3.2, RFC 7323, RFC 2018).

/// Largest shift of a window (RFC 7323 §2.3).
pub const MAX_WINDOW_SHIFT: u8 = 14;

/// A timestamps option (RFC 7323 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The latest clock value of the receiver that the sender has; valid if the segment acknowledges.
    pub echo: u32,
}

/// The options of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpOptions {
    /// Maximum segment size, octets.
    pub max_segment: Option<u16>,
    /// Shift of the sender's windows. A larger one counts as [`MAX_WINDOW_SHIFT`] (RFC 7323 §2.3).
    pub window_shift: Option<u8>,
    /// The sender understands selective acknowledgments.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// An option has a length that is wrong or reaches beyond the header. Options before it are read.
    pub is_malformed: bool,
}

impl TcpOptions {
    /// Reads the options field of a segment. Unknown options are skipped; of repeated options, the last counts.
    ///
    /// Cost: one pass over at most 40 octets; the usual timestamps after two no-operations are read without a loop.
    #[inline]
    pub fn parse(options: &[u8]) -> Self {
        // RFC 7323 appendix A: the recommended layout.
        if let [1, 1, 8, 10, a, b, c, d, e, f, g, h] = *options {
            let timestamps = Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            };
            return Self { timestamps: Some(timestamps), ..Self::default() };
        }
        Self::walk(options)
    }

    fn walk(mut options: &[u8]) -> Self {
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        let mut found = Self::default();
        loop {
            options = match *options {
                [] | [END, ..] => return found,
                [NO_OPERATION, ref rest @ ..] => rest,
                [_, len, ..] if len >= 2 => match options.split_at_checked(usize::from(len)) {
                    Some((option, rest)) => {
                        found.read(option);
                        rest
                    }
                    None => return Self { is_malformed: true, ..found },
                },
                _ => return Self { is_malformed: true, ..found },
            };
        }
    }

    fn read(&mut self, option: &[u8]) {
        match *option {
            [2, 4, a, b] => self.max_segment = Some(u16::from_be_bytes([a, b])),
            [3, 3, shift] => self.window_shift = Some(shift.min(MAX_WINDOW_SHIFT)),
            [4, 2] => self.sack_permitted = true,
            [8, 10, a, b, c, d, e, f, g, h] => {
                let (value, echo) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                self.timestamps = Some(Timestamps { value, echo });
            }
            [2..=4 | 8, ..] => self.is_malformed = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_linux_sends() {
        // A SYN: MSS 1460, SACK, timestamps, no-operation, shift 7.
        let syn = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let expected = TcpOptions {
            max_segment: Some(1_460),
            window_shift: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            is_malformed: false,
        };
        assert_eq!(TcpOptions::parse(&syn), expected);
        let data = [1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 5];
        assert_eq!(TcpOptions::parse(&data).timestamps, Some(Timestamps { value: 256, echo: 5 }));
    }

    #[test]
    fn names_malformed_options_and_keeps_those_before() {
        let options = TcpOptions::parse(&[3, 3, 200, 8, 10, 1]);
        assert!(options.is_malformed);
        assert_eq!(options.window_shift, Some(MAX_WINDOW_SHIFT));
        assert!(TcpOptions::parse(&[5]).is_malformed);
        assert!(TcpOptions::parse(&[5, 1]).is_malformed);
        assert!(TcpOptions::parse(&[2, 3, 1]).is_malformed);
        assert!(!TcpOptions::parse(&[0, 2, 3, 1]).is_malformed);
    }

    proptest! {
        /// Against the parser of another library.
        #[test]
        fn agrees_with_etherparse(options in proptest::collection::vec(0_u8..12, 0..40)) {
            use etherparse::{TcpOptionElement as Element, TcpOptionsIterator};
            let mut expected = TcpOptions::default();
            for element in TcpOptionsIterator::from_slice(&options) {
                match element {
                    Ok(Element::MaximumSegmentSize(size)) => expected.max_segment = Some(size),
                    Ok(Element::WindowScale(shift)) => expected.window_shift = Some(shift.min(MAX_WINDOW_SHIFT)),
                    Ok(Element::SelectiveAcknowledgementPermitted) => expected.sack_permitted = true,
                    Ok(Element::Timestamp(value, echo)) => expected.timestamps = Some(Timestamps { value, echo }),
                    Ok(Element::Noop | Element::SelectiveAcknowledgement(..)) => {}
                    // It ends at unknown options, which are skipped here.
                    Err(_) => return Ok(()),
                }
            }
            prop_assert_eq!(TcpOptions::parse(&options), expected);
        }
    }
}
