//! Names of records and topics.

use scalebricks_control::engine::MAX_KEY_BYTES;

/// Whether a key is well formed: levels of `a` to `z`, `0` to `9`, `-` and `_`, separated by `.`.
pub(crate) fn is_key(key: &str) -> bool {
    let is_level = |level: &str| {
        let is_fit = |b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        !level.is_empty() && level.bytes().all(is_fit)
    };
    key.len() <= MAX_KEY_BYTES && key.split('.').all(is_level)
}

/// Why a key is invalid.
pub(crate) const NO_KEY: &str = "keys have at most 128 bytes, a-z 0-9 - _, in levels separated by dots";

/// Whether this is a prefix of keys: empty, or levels and a dot.
pub(crate) fn is_prefix(prefix: &str) -> bool {
    prefix.is_empty() || prefix.strip_suffix('.').is_some_and(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_levels_of_plain_letters() {
        for key in ["a", "owner.17", "a-b_c.0"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", ".", "a.", ".a", "a..b", "A", "ä", "a b", "a/b", &"a".repeat(129)] {
            assert!(!is_key(key), "{key}");
        }
    }
}
