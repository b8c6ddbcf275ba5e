//! Linear-feedback shift registers of maximal length: every non-zero state once, for a shift and a masked
//! XOR.
//!
//! The state of an `n`-bit register is a polynomial over GF(2) of degree below `n`. A step divides it by x
//! modulo a polynomial q of degree `n` (Galois form, shifting right): if the lowest coefficient is 1, q is
//! added first. If q is primitive, x has order 2^n − 1, and so has the register. The polynomials are from
//! Xilinx XAPP 052 (Alfke, 1996), Table 3. The tests prove that each is primitive, using the prime factors of
//! 2^n − 1.

/// A word that can hold the state.
pub trait Register: Copy + Eq + Default {
    /// The next state.
    #[must_use]
    fn step(self, feedback: Self) -> Self;

    /// The feedback word of a polynomial, from its non-zero exponents.
    fn feedback(taps: [u32; 4]) -> Self;

    /// A non-zero state of `bits` bits derived from any number.
    fn start(number: u128, bits: u32) -> Self;
}

macro_rules! register {
    ($word:ty) => {
        impl Register for $word {
            #[inline(always)]
            fn step(self, feedback: Self) -> Self {
                (self >> 1) ^ (feedback & (self & 1).wrapping_neg())
            }

            fn feedback(taps: [u32; 4]) -> Self {
                // A tap of 0 is unused.
                taps.into_iter().filter(|&tap| tap > 0).fold(0, |word, tap| word | 1 << (tap - 1))
            }

            fn start(number: u128, bits: u32) -> Self {
                let state = (number & (u128::MAX >> (128 - bits))) as Self; // no more bits than the word has
                if state == 0 { 1 } else { state }
            }
        }
    };
}

register!(u32);
register!(u64);
register!(u128);

/// The polynomial x^a + x^b + x^c + x^d + 1, highest exponent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polynomial {
    /// Its non-zero exponents; the first is the width.
    pub taps: [u32; 4],
}

/// 32 bits.
pub const IPV4: Polynomial = Polynomial { taps: [32, 22, 2, 1] };
/// 48 bits.
pub const MAC: Polynomial = Polynomial { taps: [48, 47, 21, 20] };
/// 64 bits.
pub const STRING: Polynomial = Polynomial { taps: [64, 63, 61, 60] };
/// 128 bits.
pub const IPV6: Polynomial = Polynomial { taps: [128, 126, 101, 99] };

impl Polynomial {
    /// Width of the register.
    pub const fn bits(self) -> u32 {
        self.taps[0]
    }
}

/// A running register.
#[derive(Debug, Clone)]
pub struct Lfsr<R> {
    state: R,
    feedback: R,
}

impl<R: Register> Lfsr<R> {
    /// Starts from a state derived from any number. The polynomial must fit the word.
    pub fn new(polynomial: Polynomial, number: u128) -> Self {
        Self { state: R::start(number, polynomial.bits()), feedback: R::feedback(polynomial.taps) }
    }
}

impl<R: Register> Iterator for Lfsr<R> {
    type Item = R;

    /// Returns the state and then steps. Never ends: after 2^n − 1 states the sequence repeats.
    #[inline(always)]
    fn next(&mut self) -> Option<R> {
        let state = self.state;
        self.state = state.step(self.feedback);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polynomials of several widths from XAPP 052 Table 3.
    const POLYNOMIALS: [Polynomial; 10] = [
        Polynomial { taps: [8, 6, 5, 4] },
        Polynomial { taps: [12, 6, 4, 1] },
        Polynomial { taps: [16, 15, 13, 4] },
        Polynomial { taps: [20, 17, 0, 0] },
        Polynomial { taps: [24, 23, 22, 17] },
        IPV4,
        MAC,
        STRING,
        Polynomial { taps: [104, 103, 94, 93] },
        IPV6,
    ];

    /// The prime factors of 2^n − 1 (OEIS A000225, Cunningham project).
    fn factors(bits: u32) -> Vec<u128> {
        match bits {
            8 => vec![3, 5, 17],
            12 => vec![3, 5, 7, 13],
            16 => vec![3, 5, 17, 257],
            20 => vec![3, 5, 11, 31, 41],
            24 => vec![3, 5, 7, 13, 17, 241],
            32 => vec![3, 5, 17, 257, 65537],
            48 => vec![3, 5, 7, 13, 17, 97, 241, 257, 673],
            64 => vec![3, 5, 17, 257, 641, 65537, 6_700_417],
            104 => vec![3, 5, 17, 53, 157, 1613, 2731, 8191, 858_001, 308_761_441],
            128 => {
                vec![3, 5, 17, 257, 641, 65537, 6_700_417, 274_177, 67_280_421_310_721]
            }
            _ => unreachable!("no factors of 2^{bits} - 1"),
        }
    }

    /// Polynomial arithmetic by the textbook, independent of the register's code.
    struct Field {
        bits: u32,
        /// The polynomial without its highest term.
        low: u128,
    }

    impl Field {
        fn of(polynomial: Polynomial) -> Self {
            let low = polynomial.taps[1..].iter().filter(|&&tap| tap > 0).fold(1, |low, &tap| low | 1 << tap);
            Self { bits: polynomial.bits(), low }
        }

        fn times_x(&self, a: u128) -> u128 {
            let top = 1 << (self.bits - 1);
            if a & top == 0 { a << 1 } else { (a ^ top) << 1 ^ self.low }
        }

        fn times(&self, mut a: u128, mut b: u128) -> u128 {
            let mut product = 0;
            while b > 0 {
                if b & 1 == 1 {
                    product ^= a;
                }
                a = self.times_x(a);
                b >>= 1;
            }
            product
        }

        /// A power of x.
        fn x_to(&self, mut power: u128) -> u128 {
            let (mut found, mut square) = (1, 2);
            while power > 0 {
                if power & 1 == 1 {
                    found = self.times(found, square);
                }
                square = self.times(square, square);
                power >>= 1;
            }
            found
        }
    }

    #[test]
    fn every_polynomial_is_primitive() {
        for polynomial in POLYNOMIALS {
            let field = Field::of(polynomial);
            let period = u128::MAX >> (128 - polynomial.bits());
            let mut rest = period;
            for prime in factors(polynomial.bits()) {
                assert_eq!(rest % prime, 0, "{polynomial:?} {prime}");
                while rest.is_multiple_of(prime) {
                    rest /= prime;
                }
                assert_ne!(field.x_to(period / prime), 1, "{polynomial:?} has a period of 1/{prime}");
            }
            assert_eq!(rest, 1, "the factors are all there are");
            assert_eq!(field.x_to(period), 1, "{polynomial:?}");
        }
    }

    #[test]
    fn a_step_divides_by_x() {
        for polynomial in POLYNOMIALS {
            let field = Field::of(polynomial);
            let states: Vec<u128> =
                Lfsr::new(polynomial, 0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321).take(300).collect();
            assert!(states.windows(2).all(|pair| field.times_x(pair[1]) == pair[0]), "{polynomial:?}");
        }
    }

    #[test]
    fn words_agree() {
        let number = 0x9876_5432_1012_3456;
        let wide: Vec<u128> = Lfsr::new(MAC, number).take(1000).collect();
        assert!(Lfsr::<u64>::new(MAC, number).zip(&wide).all(|(a, &b)| u128::from(a) == b));
        let wide: Vec<u128> = Lfsr::new(IPV4, number).take(1000).collect();
        assert!(Lfsr::<u32>::new(IPV4, number).zip(&wide).all(|(a, &b)| u128::from(a) == b));
        assert_eq!(Lfsr::<u32>::new(IPV4, 1 << 40).next(), Some(1), "never 0");
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of states")]
    fn small_registers_have_every_state_once() {
        for polynomial in POLYNOMIALS.into_iter().filter(|polynomial| polynomial.bits() <= 24) {
            let period = (1_usize << polynomial.bits()) - 1;
            let mut seen = vec![false; period + 1];
            for state in Lfsr::<u32>::new(polynomial, 77).take(period) {
                assert!(!std::mem::replace(&mut seen[state as usize], true), "{polynomial:?}: {state} again");
            }
            assert!(!seen[0]);
            assert_eq!(Lfsr::<u32>::new(polynomial, 77).nth(period), Some(77));
        }
    }
}
