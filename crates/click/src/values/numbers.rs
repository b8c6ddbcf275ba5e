//! Booleans, integers and sizes.

use super::{Names, Value, ValueError};
use crate::number::{NumberError, unsigned};

impl Value for bool {
    /// `1`, `true`, `yes`, `t`, `y`; `0`, `false`, `no`, `f`, `n`.
    fn read(text: &str, _: &Names<'_>) -> Result<Self, ValueError> {
        match text {
            "1" | "true" | "yes" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "f" | "n" => Ok(false),
            _ => Err(ValueError::new(0, format!("expected a boolean (true or false), not `{text}`"))),
        }
    }
}

/// The number's magnitude and whether it is negative.
fn signed(text: &str) -> Result<(u128, bool), ValueError> {
    let sign = usize::from(text.starts_with(['+', '-']));
    match unsigned(&text[sign..]) {
        Ok(value) => Ok((value, text.starts_with('-'))),
        Err(NumberError::Format(at)) => {
            Err(ValueError::new(sign + at, format!("expected an integer, not `{text}`")))
        }
        Err(NumberError::Overflow) => Err(ValueError::new(0, format!("`{text}` is too large"))),
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            /// Decimal, octal after `0`, hexadecimal after `0x`, with an optional sign.
            fn read(text: &str, _: &Names<'_>) -> Result<Self, ValueError> {
                let (value, negative) = signed(text)?;
                let value = i128::try_from(value).ok().map(|value| if negative { -value } else { value });
                let range = || format!("`{text}` is not from {} to {}", Self::MIN, Self::MAX);
                value.and_then(|value| Self::try_from(value).ok()).ok_or_else(|| ValueError::new(0, range()))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i32, i64);

/// A number of bytes: an integer as in Click, or with a unit, which Click does not support: `64KiB`, `1MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Value for Size {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        const UNITS: [(&str, u64); 7] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("kB", 1000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("", 1),
        ];
        for (unit, factor) in UNITS {
            if let Some(digits) = text.strip_suffix(unit) {
                let value = u64::read(digits, names)?;
                let too_large = || ValueError::new(0, format!("`{text}` is too large"));
                return value.checked_mul(factor).map(Size).ok_or_else(too_large);
            }
        }
        unreachable!("every text ends in nothing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Result<T, usize> {
        T::read(text, &Names::none()).map_err(|error| error.at)
    }

    #[test]
    fn booleans() {
        assert_eq!(read::<bool>("yes"), Ok(true));
        assert_eq!(read::<bool>("0"), Ok(false));
        assert_eq!(read::<bool>("True"), Err(0));
    }

    #[test]
    fn integers_keep_to_their_types() {
        assert_eq!(read::<u8>("255"), Ok(255));
        assert_eq!(read::<u8>("256"), Err(0));
        assert_eq!(read::<u32>("-1"), Err(0));
        assert_eq!(read::<u32>("-0"), Ok(0));
        assert_eq!(read::<i32>("-0x80000000"), Ok(i32::MIN));
        assert_eq!(read::<i64>("+017"), Ok(15));
        assert_eq!(read::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(read::<u64>("18446744073709551616"), Err(0));
        assert_eq!(read::<u32>("12 3"), Err(2));
        assert_eq!(read::<i32>("-é"), Err(1));
        assert_eq!(read::<i32>(""), Err(0));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(read("1500"), Ok(Size(1500)));
        assert_eq!(read("64KiB"), Ok(Size(65536)));
        assert_eq!(read("2GB"), Ok(Size(2_000_000_000)));
        assert_eq!(read::<Size>("99999999999GiB"), Err(0));
        assert_eq!(read::<Size>("6x4KiB"), Err(1));
    }
}
