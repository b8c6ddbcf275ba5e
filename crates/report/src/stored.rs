//! Helpers that read fields of a report from JSON.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name of a benchmark, format or unit. The code that measures uses constants for these.
pub type Interned = &'static str;

/// All strings read so far, each stored once. There are a few dozen.
static STRINGS: Mutex<BTreeSet<Interned>> = Mutex::new(BTreeSet::new());

fn intern(text: &str) -> Interned {
    let mut words = STRINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = words.get(text) {
        return word;
    }
    let word: Interned = Box::leak(text.into());
    words.insert(word);
    word
}

/// Reads a string and interns it.
///
/// # Errors
/// The error of `D` for anything but a string.
pub fn interned<'de, D: Deserializer<'de>>(from: D) -> Result<Interned, D::Error> {
    Ok(intern(&String::deserialize(from)?))
}

/// Reads an optional string and interns it.
///
/// # Errors
/// The error of `D` for anything but a string or null.
pub fn interned_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Interned>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| intern(&text)))
}

/// Reads a number. JSON has null for NaN and infinity.
///
/// # Errors
/// The error of `D` for anything but a number or null.
pub fn f64_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once() {
        let (first, second) = (intern("setsep-lookup"), intern(&String::from("setsep-lookup")));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }

    #[test]
    fn what_is_no_number_is_null_in_json() {
        let json = serde_json::to_string(&f64::INFINITY).unwrap();
        assert!(f64_or_nan(&mut serde_json::Deserializer::from_str(&json)).unwrap().is_nan());
    }
}
