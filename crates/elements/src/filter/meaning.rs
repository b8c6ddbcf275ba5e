//! Translates a complete primitive into an expression.

use super::Problem;
use super::ast::{Comparison, Expression, Primitive, Relation, Side, Transport};
use super::primitive::{Data, ECN, Field, Kind, Qualifiers, TCP};

/// The mask and relation of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueTest {
    pub(super) mask: Option<u32>,
    pub(super) relation: Relation,
}

impl ValueTest {
    /// The comparison of a number of at most `most`.
    fn with(self, what: &'static str, value: u32, most: u32) -> Result<Comparison, Problem> {
        let mask = self.mask.unwrap_or(most);
        if mask & most != mask {
            return Err(Problem::Mask(what));
        }
        let relation = self.relation;
        if !matches!(relation, Relation::Equal | Relation::Unequal) {
            return Ok(Comparison { mask, relation, value });
        }
        if value > most {
            return Err(Problem::Range { value, most });
        }
        Ok(Comparison { mask, relation, value: value & mask })
    }

    fn only_equal(self, what: &'static str) -> Result<bool, Problem> {
        match self.relation {
            Relation::Equal => Ok(false),
            Relation::Unequal => Ok(true),
            _ => Err(Problem::Relation(what)),
        }
    }

    fn no_mask(self, what: &'static str) -> Result<(), Problem> {
        self.mask.map_or(Ok(()), |_| Err(Problem::Mask(what)))
    }

    /// Checks that no mask or relation was given.
    fn plain(self, what: &'static str) -> Result<(), Problem> {
        self.no_mask(what)?;
        if self.only_equal(what)? { Err(Problem::Relation(what)) } else { Ok(()) }
    }
}

/// The expression of a complete primitive.
pub(super) fn expression(
    all: &Qualifiers,
    kind: Kind,
    data: Data,
    how: ValueTest,
) -> Result<Expression, Problem> {
    let side = all.side.unwrap_or(Side::Either);
    let field = |Field { of, offset, len, shift, .. }, comparison| Primitive::Field {
        of,
        offset,
        len,
        shift,
        comparison,
    };
    let primitive = match (kind, data) {
        (Kind::Host, Data::Host(bits)) => {
            let (is_unequal, mask) = (how.only_equal("`host`")?, how.mask.unwrap_or(u32::MAX));
            Primitive::Address { side, mask, bits: bits & mask, is_unequal }
        }
        (Kind::Net, Data::Net { bits, mask }) => {
            how.no_mask("`net`")?;
            Primitive::Address { side, mask, bits, is_unequal: how.only_equal("`net`")? }
        }
        (Kind::Host, Data::Host6(bits)) => {
            how.no_mask("`host` of IPv6")?;
            Primitive::Address6 { side, mask: u128::MAX, bits, is_unequal: how.only_equal("`host`")? }
        }
        (Kind::Net, Data::Net6 { bits, mask }) => {
            how.no_mask("`net`")?;
            Primitive::Address6 { side, mask, bits, is_unequal: how.only_equal("`net`")? }
        }
        (Kind::Host, _) => return Err(Problem::Value("an IP address behind `host`")),
        (Kind::Net, _) => return Err(Problem::Value("an IP prefix behind `net`")),
        (Kind::Proto, _) => return protocol(all.transport, data, how),
        (Kind::Port, Data::Number(_) | Data::Port(_)) => {
            let number = if let Data::Number(number) = data { number } else { number_of(data) };
            let of = all.transport.unwrap_or(Transport::TcpOrUdp);
            if !matches!(of, Transport::TcpOrUdp | Transport::Number(6 | 17)) {
                return Err(Problem::Protocol("`port`"));
            }
            let comparison = how.with("`port`", number, 0xFFFF)?;
            return Ok(Expression::Test(Primitive::Port { side, of, comparison }));
        }
        (Kind::Port, _) => return Err(Problem::Value("a port number behind `port`")),
        (Kind::Flags, Data::Number(0..=255) | Data::Flag(_)) => {
            how.plain("`tcp opt`")?;
            if all.transport.is_some_and(|of| of != TCP) {
                return Err(Problem::Protocol("`tcp opt`"));
            }
            return Ok(Expression::Test(Primitive::Flags(number_of(data) as u8))); // up to 255
        }
        (Kind::Flags, _) => return Err(Problem::Value("TCP flags behind `opt`")),
        (Kind::Frag | Kind::Unfrag, _) => {
            how.plain("`ip frag`")?;
            no_data(data, "nothing behind `ip frag`")?;
            Primitive::Fragment
        }
        (Kind::Ce, _) => {
            how.plain("`ip ce`")?;
            no_data(data, "nothing behind `ip ce`")?;
            field(ECN, Comparison { mask: 3, relation: Relation::Equal, value: 3 })
        }
        (Kind::Ect, Data::None) => {
            how.plain("`ip ect` without a value")?;
            field(ECN, Comparison { mask: 3, relation: Relation::Unequal, value: 0 })
        }
        (Kind::Ect, Data::Number(number)) => field(ECN, how.with("`ip ect`", number, ECN.most())?),
        (Kind::Field(of), Data::Number(_) | Data::IcmpType(_)) => {
            let test = field(of, how.with("this field", number_of(data), of.most())?);
            if of.of.is_some() {
                return Ok(Expression::Test(test));
            }
            test
        }
        (Kind::Ect | Kind::Field(_), _) => return Err(Problem::Value("a number for the field")),
    };
    let test = Expression::Test(primitive);
    let test = if kind == Kind::Unfrag { Expression::Not(Box::new(test)) } else { test };
    Ok(match all.transport {
        Some(transport) => Expression::All(vec![Expression::Test(Primitive::Transport(transport)), test]),
        None => test,
    })
}

fn no_data(data: Data, what: &'static str) -> Result<(), Problem> {
    if data == Data::None { Ok(()) } else { Err(Problem::Value(what)) }
}

/// The number of a value.
fn number_of(data: Data) -> u32 {
    match data {
        Data::Number(number) | Data::Host(number) => number,
        Data::Port(port) => port.into(),
        Data::Flag(byte) | Data::IcmpType(byte) => byte.into(),
        Data::None | Data::Net { .. } | Data::Host6(_) | Data::Net6 { .. } | Data::Proto(_) => 0,
    }
}

/// `ip proto 17`, `tcp`, `ip proto != icmp`.
fn protocol(transport: Option<Transport>, data: Data, how: ValueTest) -> Result<Expression, Problem> {
    const WHAT: &str = "`ip proto`";
    let of_data = match data {
        Data::None => None,
        Data::Proto(transport) => Some(transport),
        Data::Number(number @ 0..=255) => Some(Transport::Number(number as u8)), // just checked
        Data::Number(number) => {
            return Ok(Expression::Test(Primitive::Protocol(how.with(WHAT, number, 0xFF)?)));
        }
        _ => return Err(Problem::Value("an IP protocol behind `proto`")),
    };
    let both = of_data.is_some() && transport.is_some();
    if both && of_data != transport {
        return Err(Problem::Twice("the transport protocol"));
    }
    match of_data.or(transport) {
        Some(Transport::Number(number)) => {
            let comparison = how.with(WHAT, number.into(), 0xFF)?;
            Ok(Expression::Test(Primitive::Protocol(comparison)))
        }
        Some(several) => {
            how.plain("a group of protocols")?;
            Ok(Expression::Test(Primitive::Transport(several)))
        }
        None => Err(Problem::Value("an IP protocol behind `proto`")),
    }
}
