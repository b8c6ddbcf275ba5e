//! How fields of a report are read back from JSON.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name of a benchmark, a format or a unit: a constant of those who measure.
pub type Interned = &'static str;

/// Words that were read, each once: there are a few dozen.
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

/// A word.
///
/// # Errors
/// What `D` has for anything but a string.
pub fn interned<'de, D: Deserializer<'de>>(from: D) -> Result<Interned, D::Error> {
    Ok(intern(&String::deserialize(from)?))
}

/// The same, if there is one.
///
/// # Errors
/// What `D` has for anything but a string and null.
pub fn interned_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Interned>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| intern(&text)))
}

/// A number; JSON has null for what is none.
///
/// # Errors
/// What `D` has for anything but a number and null.
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
