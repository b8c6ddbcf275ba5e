//! Fitness: whether a node can do its work, as it reports with each heartbeat.

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;

/// Why a node cannot do its work, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfitness {
    /// A worker makes no progress.
    Worker,
    /// The link of the fabric port is down.
    FabricLink,
    /// The node reaches fewer than half of the other members over the fabric.
    Fabric,
    /// The link towards the Internet is down.
    InternetLink,
    /// No next hop towards the Internet answers.
    InternetNextHop,
    /// The link towards the base stations is down.
    RanLink,
    /// No next hop towards the base stations answers.
    RanNextHop,
}

impl Unfitness {
    /// All, in the order of their bits.
    pub const ALL: [Self; 7] = [
        Self::Worker,
        Self::FabricLink,
        Self::Fabric,
        Self::InternetLink,
        Self::InternetNextHop,
        Self::RanLink,
        Self::RanNextHop,
    ];

    /// Its bit in [`Fitness::bits`].
    pub const fn bit(self) -> u8 {
        match self {
            Self::Worker => 1,
            Self::FabricLink => 2,
            Self::Fabric => 4,
            Self::InternetLink => 8,
            Self::InternetNextHop => 16,
            Self::RanLink => 32,
            Self::RanNextHop => 64,
        }
    }

    /// Its name in metrics, JSON and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::FabricLink => "fabric_link",
            Self::Fabric => "fabric",
            Self::InternetLink => "internet_link",
            Self::InternetNextHop => "internet_next_hop",
            Self::RanLink => "ran_link",
            Self::RanNextHop => "ran_next_hop",
        }
    }

    /// The description for operators.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Worker => "a worker makes no progress",
            Self::FabricLink => "the fabric link is down",
            Self::Fabric => "fewer than half of the other members are reached over the fabric",
            Self::InternetLink => "the link towards the Internet is down",
            Self::InternetNextHop => "no next hop towards the Internet answers",
            Self::RanLink => "the link towards the base stations is down",
            Self::RanNextHop => "no next hop towards the base stations answers",
        }
    }

    /// In which respect it makes a node unfit.
    pub const fn respect(self) -> Respect {
        match self {
            Self::Worker => Respect::Worker,
            Self::FabricLink | Self::Fabric => Respect::Fabric,
            Self::InternetLink | Self::InternetNextHop => Respect::Internet,
            Self::RanLink | Self::RanNextHop => Respect::Ran,
        }
    }
}

/// Aspects in which nodes are compared: a node is suspended only where others do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Respect {
    /// The workers.
    Worker,
    /// The fabric.
    Fabric,
    /// The side of the Internet.
    Internet,
    /// The side of the base stations.
    Ran,
}

impl Respect {
    /// All.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Fabric, Self::Internet, Self::Ran];
}

/// How fit a node is: a set of [`Unfitness`], empty if it can do all of its work. One octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, BorshSerialize, BorshDeserialize)]
pub struct Fitness(u8);

impl Fitness {
    /// The node can do all of its work.
    pub const FIT: Self = Self(0);

    /// The fitness with these bits. Bits that are not known here are kept, and mean nothing.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// One bit for each reason: see [`Unfitness::bit`].
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The same with one reason more.
    #[must_use]
    pub const fn with(self, reason: Unfitness) -> Self {
        Self(self.0 | reason.bit())
    }

    /// The reasons of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The reasons that both have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether this is one of the reasons.
    pub const fn has(self, reason: Unfitness) -> bool {
        self.0 & reason.bit() != 0
    }

    /// Whether there is no reason.
    pub fn is_fit(self) -> bool {
        self.reasons().next().is_none()
    }

    /// Whether there is no reason in this respect.
    pub fn is_fit_in(self, respect: Respect) -> bool {
        self.reasons().all(|reason| reason.respect() != respect)
    }

    /// The reasons, in the order of their bits.
    pub fn reasons(self) -> impl Iterator<Item = Unfitness> {
        Unfitness::ALL.into_iter().filter(move |reason| self.has(*reason))
    }
}

impl FromIterator<Unfitness> for Fitness {
    fn from_iter<I: IntoIterator<Item = Unfitness>>(reasons: I) -> Self {
        reasons.into_iter().fold(Self::FIT, Self::with)
    }
}

/// The names of the reasons, separated by commas; `fit` if there are none.
impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = self.reasons();
        let Some(first) = reasons.next() else { return f.write_str("fit") };
        f.write_str(first.name())?;
        reasons.try_for_each(|reason| write!(f, ", {}", reason.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_one_bit_and_one_name() {
        let bits: Vec<u8> = Unfitness::ALL.iter().map(|reason| reason.bit()).collect();
        assert_eq!(bits, [1, 2, 4, 8, 16, 32, 64]);
        for bits in 0..=u8::MAX {
            let fitness = Fitness::from_bits(bits);
            assert_eq!(fitness.reasons().collect::<Fitness>().bits(), bits & 0x7f);
            assert_eq!(fitness.is_fit(), [0, 0x80].contains(&bits));
            assert_eq!(fitness.is_fit(), Respect::ALL.iter().all(|respect| fitness.is_fit_in(*respect)));
        }
        let two = Fitness::FIT.with(Unfitness::Worker).with(Unfitness::RanLink);
        assert_eq!((two.to_string(), Fitness::FIT.to_string()), ("worker, ran_link".into(), "fit".into()));
        assert!(two.is_fit_in(Respect::Internet) && !two.is_fit_in(Respect::Ran));
    }
}
