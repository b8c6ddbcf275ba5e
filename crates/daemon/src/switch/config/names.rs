//! What names are, and how those that are none are told.

use super::sections::{self, Kind, UnknownName};
use super::{CheckBits, NamesFile};
use crate::node::config::Problems;
use scalebricks_elements::flat::names::MAX_CHECK_BITS;
use scalebricks_elements::flat::{Base, BytesAt, Length, NameKind, UnknownNamePolicy};
use toml::Spanned;

/// Default of `names.expected`.
const EXPECTED: u64 = 100_000;

/// Most names a table is made for.
const MAX_EXPECTED: u64 = 1 << 30;

/// Least and most of `names.filter_rate`.
const FILTER_RATES: std::ops::RangeInclusive<f64> = 1e-9..=0.5;

pub(super) fn names(given: sections::Names, problems: &mut Problems<'_>) -> Option<NamesFile> {
    let kind = kind(&given, problems);
    let unknown = unknown(&given, problems);
    let expected = given.expected.as_ref().map_or(EXPECTED, |expected| *expected.get_ref());
    if let Some(given) = given.expected.as_ref().filter(|_| !(1..=MAX_EXPECTED).contains(&expected)) {
        problems.add(given.span(), "names.expected", format!("{expected} is not 1 to {MAX_EXPECTED}"));
    }
    let filter_rate = given.filter_rate.as_ref().map(|rate| *rate.get_ref());
    if let Some(given) = given.filter_rate.as_ref().filter(|rate| !FILTER_RATES.contains(rate.get_ref())) {
        problems.add(given.span(), "names.filter_rate", format!("{} is not 1e-9 to 0.5", given.get_ref()));
    }
    let check_bits = check_bits(&given, unknown, problems);
    Some(NamesFile {
        kind: kind?,
        file: given.file.map(Spanned::into_inner),
        expected,
        unknown,
        check_bits: check_bits?,
        filter_rate,
    })
}

fn unknown(given: &sections::Names, problems: &mut Problems<'_>) -> UnknownNamePolicy {
    let is_mac = *given.kind.get_ref() == Kind::Mac;
    let Some(asked) = &given.unknown else {
        return if is_mac { UnknownNamePolicy::Flood } else { UnknownNamePolicy::Drop };
    };
    match asked.get_ref() {
        UnknownName::Drop => UnknownNamePolicy::Drop,
        UnknownName::Answer => UnknownNamePolicy::Answer,
        UnknownName::Flood => {
            if !is_mac {
                let what = "only MAC addresses that are not known are flooded: 'drop' or 'answer'";
                problems.add(asked.span(), "names.unknown", what);
            }
            UnknownNamePolicy::Flood
        }
    }
}

fn check_bits(
    given: &sections::Names,
    unknown: UnknownNamePolicy,
    problems: &mut Problems<'_>,
) -> Option<CheckBits> {
    let span = given.kind.span();
    let is_told_apart = unknown != UnknownNamePolicy::Answer;
    let asked = given.check_bits.as_ref().map(|bits| *bits.get_ref());
    if !is_told_apart && (asked.unwrap_or(0) > 0 || given.filter_rate.is_some()) {
        let what =
            "with unknown = 'answer' nobody asks whether a name is known: neither check_bits nor filter_rate";
        problems.add(span, "names.check_bits", what);
    } else if is_told_apart && asked == Some(0) && given.filter_rate.is_none() {
        let what =
            "without check_bits and filter_rate names that are not known cannot be told from those that are";
        problems.add(span, "names.check_bits", what);
    }
    // As many as there can be, where nothing else tells.
    let default = if is_told_apart && given.filter_rate.is_none() { MAX_CHECK_BITS } else { 0 };
    let bits = CheckBits::new(asked.unwrap_or(default));
    if let (None, Some(given)) = (bits, &given.check_bits) {
        problems.add(
            given.span(),
            "names.check_bits",
            format!("{} is not 0 to {MAX_CHECK_BITS}", given.get_ref()),
        );
    }
    bits
}

fn kind(given: &sections::Names, problems: &mut Problems<'_>) -> Option<NameKind> {
    let kind = *given.kind.get_ref();
    if let Some(at) = given.at.as_ref().filter(|_| kind != Kind::Bytes) {
        problems.add(at.span(), "names.at", "only names of the kind 'bytes' have a place");
    }
    if let Some(with_port) = given.with_port.as_ref().filter(|_| kind != Kind::Tuple) {
        problems.add(with_port.span(), "names.with_port", "only names of the kind 'tuple' have a port");
    }
    Some(match kind {
        Kind::Mac => NameKind::Mac,
        Kind::Ipv4 => NameKind::Ipv4,
        Kind::Ipv6 => NameKind::Ipv6,
        Kind::Tuple => {
            NameKind::Tuple { with_port: given.with_port.as_ref().is_some_and(|with| *with.get_ref()) }
        }
        Kind::Bytes => {
            let Some(at) = &given.at else {
                let what =
                    "where are the bytes? at = { from = \"payload\", offset = 0, length = 8 }, for example";
                problems.add(given.kind.span(), "names.at", what);
                return None;
            };
            NameKind::Bytes(place(at, problems)?)
        }
    })
}

fn place(at: &Spanned<sections::At>, problems: &mut Problems<'_>) -> Option<BytesAt> {
    let sections::At { from, offset, length, length_bytes } = *at.get_ref();
    let length = match (length, length_bytes) {
        (Some(length), None) => Length::Fixed(length),
        (None, Some(1)) => Length::Prefix8,
        (None, Some(2)) => Length::Prefix16,
        _ => {
            let what = "say length, 1 to 255, or length_bytes, 1 or 2, if the length stands before the name";
            problems.add(at.span(), "names.at", what);
            return None;
        }
    };
    let base = match from {
        sections::From::Frame => Base::Frame,
        sections::From::Payload => Base::Payload,
    };
    let place = BytesAt::new(base, offset, length);
    if let Err(error) = place {
        problems.add(at.span(), "names.at.length", error.to_string());
    }
    place.ok()
}
