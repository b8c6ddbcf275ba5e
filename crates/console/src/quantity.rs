//! Quantities as people write them: `1M`, `250k`, `5_000_000`, `16 MiB`.

use std::ops::RangeInclusive;

/// A malformed quantity, or one out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number.
    #[error("not a number: write digits and, if you like, k, M or G, as in 250k or 1.5M")]
    Malformed,
    /// Not a whole number.
    #[error("not a whole number")]
    Fraction,
    /// Too small or too large.
    #[error("must be {} to {}", count(*.0.start()), count(*.0.end()))]
    Range(RangeInclusive<u64>),
}

/// Parses a whole number within a range. `k`, `M` and `G` are powers of 1000; underscores are ignored.
///
/// # Errors
/// [`QuantityError`] with the valid forms or range.
pub fn parse(text: &str, range: RangeInclusive<u64>) -> Result<u64, QuantityError> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let scale = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(QuantityError::Malformed),
    };
    let plain = digits.replace('_', "");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return Err(QuantityError::Malformed);
    }
    let out_of_range = || QuantityError::Range(range.clone());
    let whole: u64 = whole.parse().map_err(|_| out_of_range())?;
    let value = whole.checked_mul(scale).ok_or_else(out_of_range)?;
    let parts: u64 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| QuantityError::Malformed)? };
    let unit = 10u64.pow(fraction.len() as u32); // at most nine digits
    if !(parts * scale).is_multiple_of(unit) {
        return Err(QuantityError::Fraction);
    }
    let value = value.checked_add(parts * scale / unit).ok_or_else(out_of_range)?;
    if range.contains(&value) { Ok(value) } else { Err(out_of_range()) }
}

/// A count with separators: `1,000,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with at most four digits: `999`, `12.3 k`, `2.05 M`.
pub fn short_count(value: u64) -> String {
    scaled(value as f64, 1_000.0, &["", " k", " M", " G", " T"])
}

/// Bytes with at most four digits: `64 B`, `3.50 MiB`.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, 1_024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let digits = format!("{value:.decimals$}");
    let whole = digits.strip_suffix(".00").or(digits.strip_suffix(".0"));
    format!("{}{}", whole.unwrap_or(&digits), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_s_numbers_are_read() {
        let all = 0..=u64::MAX;
        let cases = [
            ("1M", 1_000_000),
            ("250k", 250_000),
            ("1.5m", 1_500_000),
            ("5_000", 5_000),
            ("0", 0),
            ("2G", 2_000_000_000),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text, all.clone()), Ok(want), "{text}");
        }
        for text in ["", "k", "1kk", "-1", "1 M", "0x10", ".5", "1.5.5M", "many"] {
            assert_eq!(parse(text, all.clone()), Err(QuantityError::Malformed), "{text}");
        }
        assert_eq!(parse("1.5", all.clone()), Err(QuantityError::Fraction));
        assert_eq!(parse("1.2345k", all.clone()), Err(QuantityError::Fraction));
        assert!(matches!(parse("99999999999999999999G", all), Err(QuantityError::Range(_))));
        assert_eq!(parse("3", 4..=5).unwrap_err().to_string(), "must be 4 to 5");
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(short_count(999), "999");
        assert_eq!(short_count(2_050_000), "2.05 M");
        assert_eq!(short_count(523_000), "523 k");
        assert_eq!(bytes(64), "64 B");
        assert_eq!(bytes(16 << 20), "16 MiB");
    }
}
