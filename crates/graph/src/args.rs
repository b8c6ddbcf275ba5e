//! Element arguments: parses configuration strings into typed values.
//!
//! As in the Click language, an argument is a value, or an upper-case keyword followed by a value: `100`, `CAPACITY
//! 100`. Values without a keyword fill the parameters in order.

use crate::spec::{ParamSpec, Spec};
use std::time::Duration;

/// Why arguments were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    /// A parameter without a default is missing.
    #[error("parameter {0} is missing")]
    Missing(&'static str),
    /// A value cannot be parsed.
    #[error("parameter {param}: cannot read {text:?} as {kind}")]
    Value {
        /// The parameter.
        param: String,
        /// The text given.
        text: String,
        /// The expected type.
        kind: &'static str,
    },
    /// A parameter was given more than once by keyword.
    #[error("parameter {0} was given twice")]
    Twice(String),
    /// There are more arguments than parameters.
    #[error("unexpected argument {0:?}")]
    Unknown(String),
    /// Each value is well-formed, but the element refuses them.
    #[error("{0}")]
    Refused(String),
}

/// The arguments of one element during parsing.
#[derive(Debug)]
pub struct Args<'a> {
    /// Arguments without a keyword, in reverse order.
    plain: Vec<&'a str>,
    /// Arguments with a keyword.
    named: Vec<(&'static str, &'a str)>,
}

impl<'a> Args<'a> {
    /// Splits arguments by the keywords of a class.
    ///
    /// # Errors
    /// [`ArgError::Twice`].
    pub fn new(texts: &'a [String], spec: &Spec) -> Result<Self, ArgError> {
        let mut args = Self { plain: Vec::new(), named: Vec::new() };
        for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let is_param = |param: &&ParamSpec| param.name.to_ascii_uppercase() == word;
            match spec.params.iter().find(is_param) {
                Some(param) if args.named.iter().any(|(name, _)| *name == param.name) && !is_list(param) => {
                    return Err(ArgError::Twice(param.name.to_owned()));
                }
                Some(param) => args.named.push((param.name, rest.trim())),
                None => args.plain.push(text),
            }
        }
        args.plain.reverse();
        Ok(args)
    }

    /// The value of a parameter: by keyword, or the next one without a keyword.
    pub fn next(&mut self, name: &str) -> Option<&'a str> {
        match self.named.iter().position(|(named, _)| *named == name) {
            Some(at) => Some(self.named.remove(at).1),
            None => self.plain.pop(),
        }
    }

    /// Checks that every argument was taken.
    ///
    /// # Errors
    /// [`ArgError::Unknown`].
    pub fn finish(mut self) -> Result<(), ArgError> {
        match self.plain.pop() {
            Some(text) => Err(ArgError::Unknown(text.to_owned())),
            None => Ok(()),
        }
    }
}

fn is_list(param: &ParamSpec) -> bool {
    param.kind.ends_with('…')
}

/// The parameters of a class. [`element!`](crate::element!) implements it.
pub trait Params: Sized {
    /// Parses them from arguments.
    ///
    /// # Errors
    /// [`ArgError`].
    fn parse(args: &mut Args<'_>) -> Result<Self, ArgError>;
}

/// The parameters of a class without parameters.
#[derive(Debug, Clone, Copy)]
pub struct NoParams;

impl Params for NoParams {
    fn parse(_: &mut Args<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

/// A type for parameters.
pub trait Param: Sized {
    /// Description of the type. That of a list ends in `…`.
    const KIND: &'static str;

    /// Parses one value; `None` if it is invalid.
    fn read(text: &str) -> Option<Self>;

    /// Takes the parameter `name` from the arguments; `None` if it was not given.
    ///
    /// # Errors
    /// [`ArgError::Value`].
    fn take(args: &mut Args<'_>, name: &str) -> Result<Option<Self>, ArgError> {
        args.next(name).map(|text| value(name, text)).transpose()
    }
}

fn value<T: Param>(name: &str, text: &str) -> Result<T, ArgError> {
    T::read(text).ok_or_else(|| ArgError::Value {
        param: name.to_owned(),
        text: text.to_owned(),
        kind: T::KIND,
    })
}

macro_rules! numbers {
    ($($number:ty: $kind:literal,)+) => {
        $(impl Param for $number {
            const KIND: &'static str = $kind;

            fn read(text: &str) -> Option<Self> {
                match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                    Some(digits) if !digits.starts_with('+') => Self::from_str_radix(digits, 16).ok(),
                    Some(_) => None,
                    None => text.parse().ok(),
                }
            }
        })+
    };
}

numbers! {
    u8: "a number below 256",
    u16: "a number below 65536",
    u32: "a number below 2^32",
    u64: "a number below 2^64",
    usize: "a number",
    i64: "a number, also below 0",
}

impl Param for bool {
    const KIND: &'static str = "true or false";

    fn read(text: &str) -> Option<Self> {
        match text {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        }
    }
}

impl Param for String {
    const KIND: &'static str = "text";

    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"').map(str::to_owned),
            None => Some(text.to_owned()),
        }
    }
}

/// Seconds without a unit, as in Click, or with `s`, `ms`, `us` or `ns`.
impl Param for Duration {
    const KIND: &'static str = "a time such as 0.5, 2s, 20ms";

    fn read(text: &str) -> Option<Self> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match &text[number.len()..] {
            "" | "s" | "sec" => 1.0,
            "ms" | "msec" => 1e-3,
            "us" | "usec" => 1e-6,
            "ns" | "nsec" => 1e-9,
            _ => return None,
        };
        Self::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
    }
}

/// An optional value. Declare it with the default `None`.
impl<T: Param> Param for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(text: &str) -> Option<Self> {
        T::read(text).map(Some)
    }

    fn take(args: &mut Args<'_>, name: &str) -> Result<Option<Self>, ArgError> {
        T::take(args, name).map(|value| value.map(Some))
    }
}

/// All remaining arguments. Must be the last parameter.
impl<T: ListItem> Param for Vec<T> {
    const KIND: &'static str = T::KINDS;

    fn read(text: &str) -> Option<Self> {
        T::read(text).map(|one| vec![one])
    }

    fn take(args: &mut Args<'_>, name: &str) -> Result<Option<Self>, ArgError> {
        let mut all = Self::new();
        while let Some(text) = args.next(name) {
            all.push(value(name, text)?);
        }
        Ok((!all.is_empty()).then_some(all))
    }
}

/// A type that list parameters may contain.
pub trait ListItem: Param {
    /// Description of a list of this type, with `…` at the end.
    const KINDS: &'static str;
}

impl ListItem for String {
    const KINDS: &'static str = "text, …";
}

impl ListItem for u64 {
    const KINDS: &'static str = "a number below 2^64, …";
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::element! {
        /// For tests.
        struct Sample as "Sample" {}
        params SampleParams {
            /// Must be given.
            rate: u32,
            /// May be given.
            burst: u8 = 32,
            /// Named as a keyword of Rust.
            r#type: Option<u8> = None,
            /// Any number.
            names: Option<Vec<String>> = None,
        }
    }

    fn parse(texts: &[&str]) -> Result<SampleParams, ArgError> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let mut args = Args::new(&texts, Sample::SPEC)?;
        let params = SampleParams::parse(&mut args)?;
        args.finish()?;
        Ok(params)
    }

    #[test]
    fn values_stand_for_parameters_in_order_and_keywords_for_their_own() {
        let Sample {} = Sample {};
        let parse =
            |texts| parse(texts).map(|p| (p.rate, p.burst, p.r#type, p.names.unwrap_or_default().join("|")));
        assert_eq!(parse(&["5", "6", "7", "a", "b"]), Ok((5, 6, Some(7), "a|b".into())));
        assert_eq!(parse(&["BURST 0x10", " 7 ", "TYPE 3", "x y"]), Ok((7, 16, Some(3), "x y".into())));
        assert_eq!(parse(&["RATE 9", ""]), Ok((9, 32, None, String::new())));
        assert_eq!(parse(&["1", "2", "NAMES a", "3", "NAMES b"]), Ok((1, 2, Some(3), "a|b".into())));
    }

    #[test]
    fn wrong_arguments_are_refused_by_name() {
        assert_eq!(parse(&[]).unwrap_err(), ArgError::Missing("rate"));
        assert_eq!(parse(&["RATE 1", "RATE 2"]).unwrap_err(), ArgError::Twice("rate".into()));
        for text in ["", "-1", "x", "99999999999", "0x", "0x+1", "RATE"] {
            assert!(parse(&[text, "RATE"]).is_err(), "{text:?}");
        }
        let burst = parse(&["1", "256"]).unwrap_err().to_string();
        assert_eq!(burst, "parameter burst: cannot read \"256\" as a number below 256");
    }

    #[test]
    fn one_argument_too_many_is_unknown() {
        let texts = vec!["1".to_owned()];
        let args = Args::new(&texts, Sample::SPEC).unwrap();
        assert_eq!(args.finish().unwrap_err(), ArgError::Unknown("1".into()));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(Duration::read("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(Duration::read("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(Duration::read("3us"), Some(Duration::from_micros(3)));
        for wrong in ["", "ms", "-1", "1 fortnight", "1e400", "nan", "inf"] {
            assert_eq!(Duration::read(wrong), None, "{wrong:?}");
        }
    }
}
