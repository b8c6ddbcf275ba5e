//! The section `[names]`: the kind of names, and how unknown names are detected.

use super::sections::{self, Kind, UnknownName};
use super::{CheckBits, NamesFile};
use crate::config::Spanned;
use crate::node::config::Problems;
use scalebricks_elements::flat::names::MAX_CHECK_BITS;
use scalebricks_elements::flat::{Base, BytesAt, Length, NameKind, UnknownNamePolicy};

/// Default of `names.expected`.
pub(super) const EXPECTED: u64 = 100_000;

/// Most names of a table.
pub(super) const MAX_EXPECTED: u64 = 1 << 30;

/// Allowed values of `names.filter_rate`.
pub(super) const FILTER_RATES: std::ops::RangeInclusive<f64> = 1e-9..=0.5;

pub(super) fn names(given: sections::Names, problems: &mut Problems<'_>) -> Option<NamesFile> {
    let kind = kind(&given, problems);
    let unknown = unknown(&given, problems);
    let check_bits = check_bits(&given, unknown, problems);
    Some(NamesFile {
        kind: kind?,
        file: given.file.map(Spanned::into_inner),
        expected: given.expected.map_or(EXPECTED, Spanned::into_inner),
        unknown,
        check_bits: check_bits?,
        filter_rate: given.filter_rate.map(Spanned::into_inner),
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
                let what = "only MAC addresses can be flooded: use 'drop' or 'answer'";
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
    let asked_at = given.check_bits.as_ref().map(Spanned::span);
    let span =
        asked_at.or(given.filter_rate.as_ref().map(Spanned::span)).unwrap_or_else(|| given.kind.span());
    let is_checked = unknown != UnknownNamePolicy::Answer;
    let asked = given.check_bits.as_ref().map(|bits| *bits.get_ref());
    if !is_checked && (asked.unwrap_or(0) > 0 || given.filter_rate.is_some()) {
        let what = "unknown = 'answer' does not detect unknown names: remove check_bits and filter_rate";
        problems.add(span, "names.check_bits", what);
    } else if is_checked && asked == Some(0) && given.filter_rate.is_none() {
        let what = "without check_bits and filter_rate unknown names cannot be detected";
        problems.add(span, "names.check_bits", what);
    }
    // As many as possible if nothing else detects unknown names.
    let default = if is_checked && given.filter_rate.is_none() { MAX_CHECK_BITS } else { 0 };
    CheckBits::new(asked.unwrap_or(default))
}

fn kind(given: &sections::Names, problems: &mut Problems<'_>) -> Option<NameKind> {
    let kind = *given.kind.get_ref();
    if let Some(at) = given.at.as_ref().filter(|_| kind != Kind::Bytes) {
        problems.add(at.span(), "names.at", "only names of the kind 'bytes' have a position");
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
                let what = "set the position of the bytes, for example at = { from = \"payload\", offset = 0, length = 8 }";
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
            let what = "set length (1 to 255), or length_bytes (1 or 2) if the length precedes the name";
            problems.add(at.span(), "names.at", what);
            return None;
        }
    };
    let base = match from {
        sections::Origin::Frame => Base::Frame,
        sections::Origin::Payload => Base::Payload,
    };
    let place = BytesAt::new(base, offset, length);
    if let Err(error) = place {
        problems.add(at.span(), "names.at.length", error.to_string());
    }
    place.ok()
}
