//! The anti-replay window (RFC 4303 §3.4.3 and appendix A) as a ring of bits (RFC 6479).
//!
//! A number above the window moves it by clearing whole words, without shifting bits. So the window is at most 63 numbers
//! larger than configured.

/// Bits per word.
const WORD: u64 = u64::BITS as u64;

/// The sequence numbers received last.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// The highest number accepted; 0 before the first.
    top: u64,
    /// Numbers below the top that may still be accepted.
    size: u64,
    is_extended: bool,
    /// The bit of a number is its low bits; a power of two of words.
    words: Box<[u64]>,
}

/// Largest window, packets.
pub const MAX_WINDOW: u32 = 1 << 20;

impl ReplayWindow {
    /// A window of `size` packets, limited to [`MAX_WINDOW`] and at least 1, for numbers of 64 bits (ESN) or 32. Memory:
    /// an eighth of `size` to a quarter of it, bytes.
    pub fn new(size: u32, is_extended: bool) -> Self {
        let size = u64::from(size.clamp(1, MAX_WINDOW));
        // One word more than the window, as the top may be anywhere in its word.
        let words = (size.div_ceil(WORD) + 1).next_power_of_two();
        Self { top: 0, size, is_extended, words: vec![0; words as usize].into() }
    }

    /// The highest number accepted; 0 before the first.
    pub const fn top(&self) -> u64 {
        self.top
    }

    /// The whole number of a packet that carries its low 32 bits (RFC 4303 appendix A2.2): without ESN the same, with
    /// ESN the one of the 2^32 numbers from the window's lower end on. `None` if it would be negative.
    #[inline]
    pub const fn infer(&self, low: u32) -> Option<u64> {
        self.infer_at(self.top, low)
    }

    /// What [`infer`](Self::infer) would return if this were the highest number accepted.
    #[inline]
    pub const fn infer_at(&self, top: u64, low: u32) -> Option<u64> {
        if !self.is_extended {
            return Some(low as u64);
        }
        let (top_high, top_low) = (top >> 32, top as u32);
        let bottom = top_low.wrapping_sub(self.size as u32 - 1);
        let spans = (top_low as u64) < self.size - 1;
        let high = match (spans, low >= bottom) {
            (false, true) | (true, false) => Some(top_high),
            // The numbers end at 2^64: what would be above is below the window.
            (false, false) => Some(if top_high == u32::MAX as u64 { top_high } else { top_high + 1 }),
            (true, true) => top_high.checked_sub(1),
        };
        match high {
            Some(high) => Some(high << 32 | low as u64),
            None => None,
        }
    }

    /// Whether a number is new: above the window, or in it and not yet accepted. 0 never is, since senders start at 1.
    #[inline]
    pub fn is_new(&self, sequence: u64) -> bool {
        if sequence > self.top {
            return true;
        }
        sequence != 0 && self.top - sequence < self.size && self.word(sequence) & bit(sequence) == 0
    }

    /// Accepts a number, whose packet was authentic. `false` if it is not [new](Self::is_new). Cost: one word; a number
    /// above the window clears the words between, at most all.
    #[inline]
    pub fn accept(&mut self, sequence: u64) -> bool {
        if !self.is_new(sequence) {
            return false;
        }
        if sequence > self.top {
            let (from, to) = (self.top / WORD, sequence / WORD);
            for word in (from + 1..=to).rev().take(self.words.len()) {
                let at = self.at(word);
                self.words[at] = 0;
            }
            self.top = sequence;
        }
        let at = self.at(sequence / WORD);
        self.words[at] |= bit(sequence);
        true
    }

    #[inline]
    const fn at(&self, word: u64) -> usize {
        word as usize & (self.words.len() - 1)
    }

    #[inline]
    fn word(&self, sequence: u64) -> u64 {
        self.words[self.at(sequence / WORD)]
    }
}

#[inline]
const fn bit(sequence: u64) -> u64 {
    1 << (sequence % WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The same by a set of all accepted numbers.
    struct Twin {
        size: u64,
        accepted: BTreeSet<u64>,
    }

    impl Twin {
        fn top(&self) -> u64 {
            self.accepted.last().copied().unwrap_or(0)
        }

        fn accept(&mut self, sequence: u64) -> bool {
            let is_below = u128::from(sequence) + u128::from(self.size) <= u128::from(self.top());
            sequence != 0 && !is_below && self.accepted.insert(sequence)
        }

        /// The only number with these low bits among the 2^32 from the window's lower end on.
        fn infer(&self, low: u32) -> Option<u64> {
            let bottom = i128::from(self.top()) - i128::from(self.size) + 1;
            let high = i128::from(self.top() >> 32);
            let all = (high - 1..=high + 1).map(|high| high << 32 | i128::from(low));
            let one = all.into_iter().find(|number| (bottom..bottom + (1 << 32)).contains(number))?;
            u64::try_from(one).ok()
        }
    }

    proptest! {
        #[test]
        fn the_ring_of_bits_accepts_what_a_set_accepts(
            size in 1..300u32,
            start in prop_oneof![Just(0u64), Just(u64::from(u32::MAX) - 90), 0..1u64 << 40],
            steps in prop::collection::vec((-400..400i64, 0..20u8), 1..300),
        ) {
            let mut window = ReplayWindow::new(size, true);
            let mut twin = Twin { size: u64::from(size), accepted: BTreeSet::new() };
            let mut at = start;
            for (step, far) in steps {
                at = at.saturating_add_signed(if far == 0 { step.abs() * 1_000 } else { step });
                let low = at as u32;
                prop_assert_eq!(window.infer(low), twin.infer(low), "top {}", twin.top());
                let (seemed_new, is_new) = (window.is_new(at), twin.accept(at));
                prop_assert_eq!((seemed_new, window.accept(at)), (is_new, is_new), "{} top {}", at, twin.top());
                prop_assert_eq!(window.top(), twin.top());
            }
        }
    }

    #[test]
    fn numbers_without_extension_are_what_the_packet_says() {
        let mut window = ReplayWindow::new(64, false);
        assert_eq!((window.infer(5), window.is_new(0)), (Some(5), false));
        assert!(
            window.accept(u64::from(u32::MAX)) && !window.accept(1) && !window.accept(u64::from(u32::MAX))
        );
    }

    #[test]
    fn the_last_numbers_of_all_are_accepted_once() {
        let mut window = ReplayWindow::new(64, true);
        assert!(window.accept(u64::MAX - 1) && window.accept(u64::MAX) && !window.accept(u64::MAX));
        assert_eq!(window.infer(u32::MAX), Some(u64::MAX));
        assert!(!window.is_new(window.infer(0).unwrap()));
    }
}
