//! Translates expressions into comparisons.
//!
//! Each expression is emitted with two targets: where to go if it is true, and if it is false. The last part is emitted
//! first, so every comparison leads to an earlier one in the list, and a program ends. Equal comparisons with equal
//! targets are shared.
//!
//! For IPv6, the fields of the header have other places, and a filter sees the number of the upper-layer protocol where the
//! fixed header has that of the first extension header. Addresses of the other IP version match no packet.

use super::ast::{Comparison, Expression, Primitive, Relation, Side, Transport};
use super::program::{Step, Test, TooLong};
use std::collections::HashMap;

/// Where a comparison leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Another comparison, by index.
    Step(u32),
    /// This filter matches.
    Filter(u32),
    /// No filter matches.
    None,
}

/// Where to go if a comparison is true, and if it is false.
#[derive(Debug, Clone, Copy)]
struct Branches {
    yes: Target,
    no: Target,
}

/// The IP version of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

struct Emitter {
    version: Version,
    steps: Vec<Step>,
    places: HashMap<Step, u32>,
    most: usize,
}

/// The comparisons of filters tried in order, and the first target.
pub(super) fn emit(
    filters: &[Expression],
    most: usize,
    version: Version,
) -> Result<(Vec<Step>, Target), TooLong> {
    let mut emitter = Emitter { version, steps: Vec::new(), places: HashMap::new(), most };
    let mut start = Target::None;
    for (number, filter) in filters.iter().enumerate().rev() {
        let yes = Target::Filter(u32::try_from(number).map_err(|_| TooLong)?);
        start = emitter.expression(filter, Branches { yes, no: start })?;
    }
    Ok((emitter.steps, start))
}

impl Emitter {
    fn expression(&mut self, expression: &Expression, ways: Branches) -> Result<Target, TooLong> {
        let Branches { yes, no } = ways;
        match expression {
            Expression::Constant(value) => Ok(if *value { yes } else { no }),
            Expression::Test(primitive) => self.primitive(*primitive, ways),
            Expression::Not(one) => self.expression(one, Branches { yes: no, no: yes }),
            Expression::All(all) => {
                all.iter().rev().try_fold(yes, |next, one| self.expression(one, Branches { yes: next, no }))
            }
            Expression::Any(any) => {
                any.iter().rev().try_fold(no, |next, one| self.expression(one, Branches { yes, no: next }))
            }
            Expression::If(three) => {
                let [condition, then, otherwise] = &**three;
                let ways =
                    Branches { yes: self.expression(then, ways)?, no: self.expression(otherwise, ways)? };
                self.expression(condition, ways)
            }
        }
    }

    fn test(&mut self, test: Test, Branches { yes, no }: Branches) -> Result<Target, TooLong> {
        if yes == no {
            return Ok(yes);
        }
        let step = Step { test, yes, no };
        if let Some(place) = self.places.get(&step) {
            return Ok(Target::Step(*place));
        }
        if self.steps.len() >= self.most {
            return Err(TooLong);
        }
        let place = self.steps.len() as u32; // below `most`
        self.steps.push(step);
        self.places.insert(step, place);
        Ok(Target::Step(place))
    }

    fn primitive(&mut self, primitive: Primitive, ways: Branches) -> Result<Target, TooLong> {
        let is_v4 = self.version == Version::V4;
        match primitive {
            Primitive::Address { is_unequal, .. } if !is_v4 => {
                Ok(if is_unequal { ways.yes } else { ways.no })
            }
            Primitive::Address6 { is_unequal, .. } if is_v4 => {
                Ok(if is_unequal { ways.yes } else { ways.no })
            }
            Primitive::Address6 { side, mask, bits, is_unequal } => {
                self.address6(side, (mask, bits), if is_unequal { swapped(ways) } else { ways })
            }
            Primitive::Fragment if !is_v4 => Ok(ways.no),
            Primitive::Field { of: None, offset, len, shift, comparison } if !is_v4 => {
                match (offset, len, shift) {
                    (0, 1, 4) => self.test(ip(0, 1, 4, comparison), ways),
                    (1, 1, shift) => self.test(ip(0, 2, 4 + shift, comparison), ways),
                    (8, 1, 0) => self.test(ip(7, 1, 0, comparison), ways),
                    _ => Ok(ways.no),
                }
            }
            Primitive::Address { side, mask, bits, is_unequal } => {
                let comparison = Comparison { mask, relation: Relation::Equal, value: bits };
                let at = |offset| ip(offset, 4, 0, comparison);
                self.sides(side, [at(12), at(16)], if is_unequal { swapped(ways) } else { ways })
            }
            Primitive::Protocol(comparison) => self.test(ip(self.protocol_at(), 1, 0, comparison), ways),
            Primitive::Transport(of) => self.transport(of, ways),
            Primitive::Port { side, of, comparison } => {
                let is_unequal = comparison.relation == Relation::Unequal;
                let relation = if is_unequal { Relation::Equal } else { comparison.relation };
                let at = |offset| behind(offset, 2, 0, Comparison { relation, ..comparison });
                let inner = if is_unequal { swapped(ways) } else { ways };
                let yes = self.sides(side, [at(0), at(2)], inner)?;
                self.in_first(of, Branches { yes, ..ways })
            }
            Primitive::Flags(flags) => {
                let mask = u32::from(flags);
                let test = behind(13, 1, 0, Comparison { mask, relation: Relation::Equal, value: mask });
                let yes = self.test(test, ways)?;
                self.in_first(Transport::Number(6), Branches { yes, ..ways })
            }
            Primitive::Fragment => {
                let comparison = Comparison { mask: 0x3FFF, relation: Relation::Unequal, value: 0 };
                self.test(ip(6, 2, 0, comparison), ways)
            }
            Primitive::Field { of, offset, len, shift, comparison } => match of {
                None => self.test(ip(offset, len, shift, comparison), ways),
                Some(of) => {
                    let yes = self.test(behind(offset, len, shift, comparison), ways)?;
                    self.in_first(of, Branches { yes, ..ways })
                }
            },
        }
    }

    /// One or both of two comparisons.
    fn sides(
        &mut self,
        side: Side,
        [source, destination]: [Test; 2],
        ways: Branches,
    ) -> Result<Target, TooLong> {
        match side {
            Side::Source => self.test(source, ways),
            Side::Destination => self.test(destination, ways),
            Side::Both => {
                let yes = self.test(destination, ways)?;
                self.test(source, Branches { yes, ..ways })
            }
            Side::Either => {
                let no = self.test(destination, ways)?;
                self.test(source, Branches { no, ..ways })
            }
        }
    }

    /// One or both IPv6 addresses.
    fn address6(&mut self, side: Side, value: (u128, u128), ways: Branches) -> Result<Target, TooLong> {
        const SOURCE: u16 = 8;
        const DESTINATION: u16 = 24;
        match side {
            Side::Source => self.words(SOURCE, value, ways),
            Side::Destination => self.words(DESTINATION, value, ways),
            Side::Both => {
                let yes = self.words(DESTINATION, value, ways)?;
                self.words(SOURCE, value, Branches { yes, ..ways })
            }
            Side::Either => {
                let no = self.words(DESTINATION, value, ways)?;
                self.words(SOURCE, value, Branches { no, ..ways })
            }
        }
    }

    /// An IPv6 address, in words of four bytes.
    fn words(&mut self, offset: u16, (mask, bits): (u128, u128), ways: Branches) -> Result<Target, TooLong> {
        let word = |of: u128, at: u16| (of >> (96 - 32 * at)) as u32; // the lower half
        let words = (0..4).rev().filter(|at| word(mask, *at) != 0);
        words.into_iter().try_fold(ways.yes, |yes, at| {
            let comparison =
                Comparison { mask: word(mask, at), relation: Relation::Equal, value: word(bits, at) };
            self.test(ip(offset + 4 * at, 4, 0, comparison), Branches { yes, ..ways })
        })
    }

    /// Where a filter sees the upper-layer protocol.
    const fn protocol_at(&self) -> u16 {
        match self.version {
            Version::V4 => 9,
            Version::V6 => 6,
        }
    }

    /// Tests for a first fragment of a protocol.
    fn in_first(&mut self, of: Transport, ways: Branches) -> Result<Target, TooLong> {
        let yes = self.transport(of, ways)?;
        if self.version == Version::V6 {
            return Ok(yes);
        }
        let comparison = Comparison { mask: 0x1FFF, relation: Relation::Equal, value: 0 };
        self.test(ip(6, 2, 0, comparison), Branches { yes, ..ways })
    }

    fn transport(&mut self, of: Transport, ways: Branches) -> Result<Target, TooLong> {
        let at = self.protocol_at();
        let is = |number| ip(at, 1, 0, Comparison { mask: 0xFF, relation: Relation::Equal, value: number });
        match of {
            Transport::Any => Ok(ways.yes),
            Transport::Number(number) => self.test(is(number.into()), ways),
            Transport::TcpOrUdp => {
                let no = self.test(is(17), ways)?;
                self.test(is(6), Branches { no, ..ways })
            }
        }
    }
}

const fn swapped(Branches { yes, no }: Branches) -> Branches {
    Branches { yes: no, no: yes }
}

const fn test(is_behind: bool, offset: u16, len: u8, shift: u8, comparison: Comparison) -> Test {
    let Comparison { mask, relation, value } = comparison;
    Test { is_behind, len, offset, shift, relation, mask, value }
}

const fn ip(offset: u16, len: u8, shift: u8, comparison: Comparison) -> Test {
    test(false, offset, len, shift, comparison)
}

const fn behind(offset: u16, len: u8, shift: u8, comparison: Comparison) -> Test {
    test(true, offset, len, shift, comparison)
}
