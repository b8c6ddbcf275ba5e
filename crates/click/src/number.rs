//! Integers and decimal fractions in Click's notation.

/// Why a number is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// The byte at this offset is invalid.
    Format(usize),
    /// It has more than 128 bits.
    Overflow,
}

/// Digits of a base: decimal, octal after `0`, hexadecimal after `0x`.
pub(crate) fn unsigned(text: &str) -> Result<u128, NumberError> {
    let (digits, base, skipped) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&text[2..], 16, 2),
        [b'0', _, ..] => (&text[1..], 8, 1),
        _ => (text, 10, 0),
    };
    if digits.is_empty() {
        return Err(NumberError::Format(0));
    }
    let mut value = 0_u128;
    let mut overflows = false;
    for (at, c) in digits.char_indices() {
        let digit = c.to_digit(base).ok_or(NumberError::Format(skipped + at))?;
        let next = value.checked_mul(u128::from(base)).and_then(|value| value.checked_add(u128::from(digit)));
        overflows |= next.is_none();
        value = next.unwrap_or(0);
    }
    if overflows { Err(NumberError::Overflow) } else { Ok(value) }
}

/// A decimal number without a sign, such as `1.5` or `2e3`, times `10^scale`, rounded down, and its length in bytes.
pub(crate) fn scaled(text: &str, scale: i32) -> Result<(u128, usize), NumberError> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return Err(NumberError::Format(0));
    }
    let mut exponent = scale;
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let power = digits((end + 1 + sign).min(bytes.len()));
        if power > 0 {
            let text = &text[end + 1..end + 1 + sign + power];
            let power_of_ten: i32 = text.parse().map_err(|_| NumberError::Overflow)?;
            exponent = exponent.saturating_add(power_of_ten);
            end += 1 + sign + power;
        }
    }
    let mantissa = bytes[..whole].iter().chain(bytes[whole..].iter().skip(1).take(fraction));
    Ok((
        shifted(
            mantissa.copied(),
            whole + fraction,
            exponent.saturating_sub(i32::try_from(fraction).unwrap_or(i32::MAX)),
        )?,
        end,
    ))
}

/// `count` decimal digits times `10^exponent`, rounded down.
fn shifted(digits: impl Iterator<Item = u8>, count: usize, exponent: i32) -> Result<u128, NumberError> {
    let kept = if exponent < 0 { count.saturating_sub(exponent.unsigned_abs() as usize) } else { count };
    let mut value = 0_u128;
    for digit in digits.take(kept) {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u128::from(digit - b'0')));
        value = next.ok_or(NumberError::Overflow)?;
    }
    for _ in 0..exponent.max(0) {
        if value == 0 {
            break;
        }
        value = value.checked_mul(10).ok_or(NumberError::Overflow)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_three_bases() {
        assert_eq!(unsigned("10"), Ok(10));
        assert_eq!(unsigned("010"), Ok(8));
        assert_eq!(unsigned("0x1F"), Ok(31));
        assert_eq!(unsigned("0"), Ok(0));
        assert_eq!(unsigned(""), Err(NumberError::Format(0)));
        assert_eq!(unsigned("0x"), Err(NumberError::Format(1)));
        assert_eq!(unsigned("12a"), Err(NumberError::Format(2)));
        assert_eq!(unsigned("09"), Err(NumberError::Format(1)));
        assert_eq!(unsigned(&"9".repeat(60)), Err(NumberError::Overflow));
        assert_eq!(unsigned(&format!("{}x", "9".repeat(60))), Err(NumberError::Format(60)));
    }

    #[test]
    fn decimals_are_scaled_exactly() {
        assert_eq!(scaled("1.5", 3), Ok((1500, 3)));
        assert_eq!(scaled("0.0015s", 3), Ok((1, 6)));
        assert_eq!(scaled(".5", 1), Ok((5, 2)));
        assert_eq!(scaled("2e3", 0), Ok((2000, 3)));
        assert_eq!(scaled("25e-1", 1), Ok((25, 5)));
        assert_eq!(scaled("7em", 0), Ok((7, 1)));
        assert_eq!(scaled("7.", 0), Ok((7, 2)));
        assert_eq!(scaled("0e999999999", 9), Ok((0, 11)));
        assert_eq!(scaled("1e999999999", 9), Err(NumberError::Overflow));
        assert_eq!(scaled("1e99999999999", 9), Err(NumberError::Overflow));
        assert_eq!(scaled("9e-999999999", 9), Ok((0, 12)));
        assert_eq!(scaled("x", 0), Err(NumberError::Format(0)));
        assert_eq!(scaled(".", 0), Err(NumberError::Format(0)));
    }
}
