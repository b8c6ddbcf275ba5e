//! Checks of arguments that all engines share: names of records and topics, sizes of values and messages.

use scalebricks_control::engine::{
    EngineError, MAX_KEY_BYTES, MAX_MESSAGE_BYTES, MAX_RECORD_BYTES, SwapError,
};

/// Whether a key is well formed: levels of `a` to `z`, `0` to `9`, `-` and `_`, separated by `.`.
pub(crate) fn is_key(key: &str) -> bool {
    let is_level = |level: &str| {
        let is_fit = |b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        !level.is_empty() && level.bytes().all(is_fit)
    };
    key.len() <= MAX_KEY_BYTES && key.split('.').all(is_level)
}

/// Why a key is invalid.
const NO_KEY: &str = "keys have at most 128 bytes, a-z 0-9 - _, in levels separated by dots";

/// Checks the key of a record.
pub(crate) fn check_key(key: &str) -> Result<(), EngineError> {
    if is_key(key) { Ok(()) } else { Err(EngineError::Refused(NO_KEY.to_owned())) }
}

/// Checks a prefix of keys: empty, or levels and a dot.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), EngineError> {
    if prefix.is_empty() || prefix.strip_suffix('.').is_some_and(is_key) {
        return Ok(());
    }
    Err(EngineError::Refused(format!("a prefix must be empty or end in a dot; {NO_KEY}")))
}

/// Checks key and value of a swap.
pub(crate) fn check_swap(key: &str, value: Option<&[u8]>) -> Result<(), SwapError> {
    if !is_key(key) {
        return Err(SwapError::Invalid(NO_KEY));
    }
    if value.is_some_and(|value| value.len() > MAX_RECORD_BYTES) {
        return Err(SwapError::Invalid("the value is longer than 64 KiB"));
    }
    Ok(())
}

/// Checks a topic.
pub(crate) fn check_topic(topic: &str) -> Result<(), EngineError> {
    if is_key(topic) { Ok(()) } else { Err(EngineError::Refused(format!("invalid topic: {NO_KEY}"))) }
}

/// Checks topic and size of a message.
pub(crate) fn check_message(topic: &str, message: &[u8]) -> Result<(), EngineError> {
    check_topic(topic)?;
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(EngineError::Refused(format!("a message of {} bytes is over the limit", message.len())));
    }
    Ok(())
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
