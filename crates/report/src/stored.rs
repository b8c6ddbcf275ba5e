//! How fields of a report are read back from JSON.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name of a benchmark, a format or a unit: a constant of those who measure.
pub type Word = &'static str;

/// Words that were read, each once: there are a few dozen.
static WORDS: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());

fn kept(text: &str) -> Word {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = words.get(text) {
        return word;
    }
    let word: Word = Box::leak(text.into());
    words.insert(word);
    word
}

/// A word.
///
/// # Errors
/// What `D` has for anything but a string.
pub fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    Ok(kept(&String::deserialize(from)?))
}

/// The same, if there is one.
///
/// # Errors
/// What `D` has for anything but a string and null.
pub fn word_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| kept(&text)))
}

/// A number; JSON has null for what is none.
///
/// # Errors
/// What `D` has for anything but a number and null.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once() {
        let (first, second) = (kept("setsep-lookup"), kept(&String::from("setsep-lookup")));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }

    #[test]
    fn what_is_no_number_is_null_in_json() {
        let json = serde_json::to_string(&f64::INFINITY).unwrap();
        assert!(number(&mut serde_json::Deserializer::from_str(&json)).unwrap().is_nan());
    }
}
