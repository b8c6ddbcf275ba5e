//! Parses one primitive: qualifiers, optional mask and relation, and a value.

use super::ast::{Expression, Relation, Side, Transport};
use super::meaning::{ValueTest, expression};
use super::parser::{Parsed, Parser, unexpected};
use super::{FilterError, Problem, names};
use crate::values::value;
use scalebricks_click::values::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The subject of a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Port,
    Proto,
    Flags,
    Frag,
    Unfrag,
    Ect,
    Ce,
    Field(Field),
}

/// A number in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) of: Option<Transport>,
    pub(super) offset: u16,
    pub(super) len: u8,
    pub(super) shift: u8,
    bits: u8,
}

impl Field {
    const fn ip(offset: u16, len: u8, shift: u8, bits: u8) -> Self {
        Self { of: None, offset, len, shift, bits }
    }

    const fn behind(of: Transport, offset: u16, len: u8) -> Self {
        Self { of: Some(of), offset, len, shift: 0, bits: len * 8 }
    }

    /// Its largest possible value.
    pub(super) const fn most(self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }
}

pub(super) const TCP: Transport = Transport::Number(6);
const ICMP_TYPE: Field = Field::behind(Transport::Number(1), 0, 1);
pub(super) const ECN: Field = Field::ip(1, 1, 0, 2);

const KINDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("net", Kind::Net),
    ("port", Kind::Port),
    ("proto", Kind::Proto),
    ("opt", Kind::Flags),
    ("frag", Kind::Frag),
    ("unfrag", Kind::Unfrag),
    ("ect", Kind::Ect),
    ("ce", Kind::Ce),
    ("vers", Kind::Field(Field::ip(0, 1, 4, 4))),
    ("hl", Kind::Field(Field::ip(0, 1, 0, 4))),
    ("tos", Kind::Field(Field::ip(1, 1, 0, 8))),
    ("dscp", Kind::Field(Field::ip(1, 1, 2, 6))),
    ("len", Kind::Field(Field::ip(2, 2, 0, 16))),
    ("id", Kind::Field(Field::ip(4, 2, 0, 16))),
    ("ttl", Kind::Field(Field::ip(8, 1, 0, 8))),
    ("win", Kind::Field(Field::behind(TCP, 14, 2))),
    ("type", Kind::Field(ICMP_TYPE)),
];

/// The qualifiers before a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) kind: Option<Kind>,
    pub(super) side: Option<Side>,
    pub(super) transport: Option<Transport>,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    None,
    Number(u32),
    Host(u32),
    Net { bits: u32, mask: u32 },
    Host6(u128),
    Net6 { bits: u128, mask: u128 },
    Proto(Transport),
    Port(u16),
    Flag(u8),
    IcmpType(u8),
}

const RELATIONS: &[(&str, Relation)] = &[
    ("=", Relation::Equal),
    ("==", Relation::Equal),
    ("!=", Relation::Unequal),
    ("<", Relation::Less),
    ("<=", Relation::AtMost),
    (">", Relation::Greater),
    (">=", Relation::AtLeast),
];

impl Qualifiers {
    fn set_kind(&mut self, kind: Kind) -> Result<(), Problem> {
        if self.kind.replace(kind).is_some() {
            return Err(Problem::Twice("the type"));
        }
        match kind {
            Kind::Field(Field { of: Some(of), .. }) => self.set_transport(of),
            _ => Ok(()),
        }
    }

    fn set_transport(&mut self, transport: Transport) -> Result<(), Problem> {
        match self.transport.replace(transport) {
            Some(other) if other != transport => Err(Problem::Twice("the transport protocol")),
            _ => Ok(()),
        }
    }

    fn set_side(&mut self, side: Side) -> Result<(), Problem> {
        self.side.replace(side).map_or(Ok(()), |_| Err(Problem::Twice("`src` or `dst`")))
    }
}

impl Parser<'_> {
    /// Parses qualifiers, and whether `not` among them negates the primitive.
    fn qualifiers(&mut self) -> Parsed<(Qualifiers, bool)> {
        let (mut all, mut is_negated) = (Qualifiers::default(), false);
        while let Some(word) = self.peek() {
            let mut words = 1;
            let kind = KINDS.iter().find(|(name, _)| *name == word.text).map(|(_, kind)| *kind);
            let set = match (word.text, kind, names::transport(word.text)) {
                (_, Some(kind), _) => all.set_kind(kind),
                (_, _, Some(transport)) => all.set_transport(transport),
                ("ip", ..) => Ok(()),
                ("dst" | "dest", ..) => all.set_side(Side::Destination),
                ("src", ..) => {
                    let other = self.peek_at(2).is_some_and(|word| matches!(word.text, "dst" | "dest"));
                    let joined = self.peek_at(1).filter(|_| other).map(|word| word.text);
                    let side = match joined {
                        Some("and" | "&&") => Side::Both,
                        Some("or" | "||") => Side::Either,
                        _ => Side::Source,
                    };
                    words = if side == Side::Source { 1 } else { 3 };
                    all.set_side(side)
                }
                ("not" | "!", ..) => {
                    is_negated = !is_negated;
                    Ok(())
                }
                _ => return Ok((all, is_negated)),
            };
            set.map_err(|problem| self.error(problem))?;
            self.skip(words);
        }
        Ok((all, is_negated))
    }

    /// `[POS]`, `[POS:LEN]`, `[FIRST,LAST]`.
    fn brackets(&mut self, of: Option<Transport>) -> Parsed<Kind> {
        const FORM: Problem = Problem::Value("`[POS]` or `[POS:LEN]`");
        let start = FilterError { problem: FORM, ..self.error(FORM) };
        self.skip(1);
        let mut inner = String::new();
        while let Some(word) = self.peek().filter(|word| word.text != "]") {
            inner.push_str(word.text);
            self.skip(1);
        }
        self.expect("]")?;
        let number = |text: &str| value::<u16>(text);
        let place = if let Some((at, len)) = inner.split_once(':') {
            number(at).zip(number(len))
        } else if let Some((first, last)) = inner.split_once(',') {
            number(first)
                .zip(number(last))
                .and_then(|(first, last)| Some((first, last.checked_sub(first)?.checked_add(1)?)))
        } else {
            number(&inner).map(|at| (at, 1))
        };
        match place {
            Some((offset, len @ 1..=4)) => {
                let len = len as u8; // from 1 to 4
                Ok(Kind::Field(Field { of, offset, len, shift: 0, bits: len * 8 }))
            }
            _ => Err(start),
        }
    }

    /// A value, if one follows that fits the qualifiers.
    fn data(&mut self, with: &Qualifiers) -> Parsed<Data> {
        let Some(word) = self.peek() else { return Ok(Data::None) };
        if let Some(named) = named(word.text, with).map_err(|problem| self.error(problem))? {
            self.skip(1);
            return Ok(named);
        }
        if let Some(number) = value(word.text) {
            self.skip(1);
            return Ok(Data::Number(number));
        }
        if let Some(address) = value::<Ipv4Addr>(word.text) {
            self.skip(1);
            let bits = address.to_bits();
            if !self.is_at(&["mask"]) {
                return Ok(Data::Host(bits));
            }
            self.skip(1);
            let mask = self.peek().and_then(|word| value::<Ipv4Addr>(word.text));
            let mask =
                mask.ok_or_else(|| self.error(Problem::Value("a mask such as 255.255.255.0")))?.to_bits();
            self.skip(1);
            return Ok(Data::Net { bits: bits & mask, mask });
        }
        if let Some(data) = address6(word.text) {
            self.skip(1);
            return Ok(data);
        }
        let net = value::<Prefix>(word.text);
        self.skip(usize::from(net.is_some()));
        let net = net.map(|net| Data::Net { bits: net.network().to_bits(), mask: net.mask().to_bits() });
        Ok(net.unwrap_or(Data::None))
    }

    /// Parses a primitive, at a word that is not a connective.
    pub(super) fn primitive(&mut self) -> Parsed<Expression> {
        let first = self.peek();
        let (mut all, is_negated) = self.qualifiers()?;
        let has_qualifiers = self.peek() != first;
        if has_qualifiers {
            self.before = Qualifiers::default();
        }
        if has_qualifiers && all.kind.is_none() && self.is_at(&["["]) {
            let kind = self.brackets(all.transport)?;
            all.kind = Some(kind);
        }
        let mut mask = None;
        if self.is_at(&["&"]) {
            self.skip(1);
            mask = self.peek().and_then(|word| value(word.text)).filter(|mask| *mask != 0);
            if mask.is_none() {
                return Err(self.error(Problem::Value("a mask that is not 0")));
            }
            self.skip(1);
        }
        let sign = self.peek().and_then(|word| RELATIONS.iter().find(|(sign, _)| *sign == word.text));
        self.skip(usize::from(sign.is_some()));
        let takes_none = matches!(all.kind, Some(Kind::Frag | Kind::Unfrag | Kind::Ce));
        let at = self.error(Problem::Missing).at;
        let data = if takes_none && sign.is_none() { Data::None } else { self.data(&all)? };
        if data == Data::None
            && (sign.is_some() || mask.is_some() && all.kind != Some(Kind::Ect) || self.peek() == first)
        {
            return Err(match self.peek() {
                Some(word) if sign.is_none() && mask.is_none() => unexpected(word),
                _ => self.error(Problem::Value("a value")),
            });
        }
        let how = ValueTest { mask, relation: sign.map_or(Relation::Equal, |(_, relation)| *relation) };
        let read = self.complete(&mut all, data).and_then(|kind| expression(&all, kind, data, how));
        let expression = read.map_err(|problem| FilterError { at, problem })?;
        self.before = all;
        Ok(if is_negated { Expression::Not(Box::new(expression)) } else { expression })
    }

    /// Completes the qualifiers from the value, or from the previous primitive.
    fn complete(&self, all: &mut Qualifiers, data: Data) -> Result<Kind, Problem> {
        let before = self.before;
        if all.kind.is_none() {
            let by_value = match data {
                Data::Number(_) => match before.kind {
                    Some(kind @ (Kind::Field(_) | Kind::Proto | Kind::Port)) => kind,
                    _ => return Err(Problem::Value("a header field or `port` before a number")),
                },
                Data::Host(_) | Data::Host6(_) => Kind::Host,
                Data::Net { .. } | Data::Net6 { .. } => Kind::Net,
                Data::None | Data::Proto(_) => Kind::Proto,
                Data::Port(_) => Kind::Port,
                Data::Flag(_) => Kind::Flags,
                Data::IcmpType(_) => Kind::Field(ICMP_TYPE),
            };
            all.set_kind(by_value)?;
            if matches!(by_value, Kind::Host | Kind::Net | Kind::Port) {
                all.side = all.side.or(before.side);
            }
            if by_value == Kind::Port {
                all.transport = all.transport.or(before.transport);
            }
        }
        all.kind.ok_or(Problem::Missing)
    }
}

/// An IPv6 address or prefix.
fn address6(text: &str) -> Option<Data> {
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<Ipv6Addr>().ok().map(|address| Data::Host6(address.to_bits()));
    };
    let address = address.parse::<Ipv6Addr>().ok()?.to_bits();
    let length = length.parse::<u32>().ok().filter(|length| *length <= 128)?;
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    Some(Data::Net6 { bits: address & mask, mask })
}

/// The meaning of a name, given the qualifiers. `None` if it is not a name.
fn named(name: &str, with: &Qualifiers) -> Result<Option<Data>, Problem> {
    let (kind, transport) = (with.kind, with.transport);
    let is = |wanted| kind.is_none_or(|kind| kind == wanted);
    let of = |wanted: &[Transport]| transport.is_none_or(|transport| wanted.contains(&transport));
    let proto = names::transport(name).filter(|_| is(Kind::Proto)).map(Data::Proto);
    let port = names::port(name, transport).filter(|_| is(Kind::Port)).map(Data::Port);
    let flag =
        names::flag(name).filter(|_| is(Kind::Flags) && of(&[TCP, Transport::TcpOrUdp])).map(Data::Flag);
    let icmp = names::icmp_type(name)
        .filter(|_| is(Kind::Field(ICMP_TYPE)) && of(&[Transport::Number(1)]))
        .map(Data::IcmpType);
    let mut all = [proto, port, flag, icmp].into_iter().flatten();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(Some(one)),
        (Some(_), Some(_)) => Err(Problem::Ambiguous {
            name: name.to_owned(),
            of: "`ip proto`, `port`, `tcp opt` and `icmp type`",
        }),
        (None, _) => {
            let is_known = names::transport(name).is_some()
                || names::port(name, None).is_some()
                || names::flag(name).is_some()
                || names::icmp_type(name).is_some();
            if is_known { Err(Problem::Unexpected(name.to_owned())) } else { Ok(None) }
        }
    }
}
