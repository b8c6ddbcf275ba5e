//! Parameters of either table, and how they lie in records.

use crate::{othello, setsep};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::PartitionCount;
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

/// First octet of the parameters of an Othello table in a record: no group format of SetSep, which is what begins those of the
/// other, has this number.
const OTHELLO: u8 = 0x80;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Structure {
    /// [`setsep`]: fewer bits.
    #[default]
    SetSep,
    /// [`othello`]: cheaper changes.
    Othello,
}

impl Structure {
    /// Both.
    pub const ALL: [Self; 2] = [Self::SetSep, Self::Othello];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SetSep => "setsep",
            Self::Othello => "othello",
        }
    }
}

/// A name that no structure has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not setsep or othello")]
pub struct UnknownStructure(pub String);

impl FromStr for Structure {
    type Err = UnknownStructure;

    fn from_str(name: &str) -> Result<Self, UnknownStructure> {
        let is_named = |structure: &Self| structure.name() == name;
        Self::ALL.into_iter().find(is_named).ok_or_else(|| UnknownStructure(name.to_owned()))
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parameters of a table. Equal parameters and equal histories give equal bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Params {
    /// Of a SetSep table.
    SetSep(setsep::Params),
    /// Of an Othello table.
    Othello(othello::Params),
}

/// Parameters that no table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Of a SetSep table.
    #[error(transparent)]
    SetSep(#[from] setsep::ParamsError),
    /// Of an Othello table.
    #[error(transparent)]
    Othello(#[from] othello::ParamsError),
}

impl From<setsep::Params> for Params {
    fn from(params: setsep::Params) -> Self {
        Self::SetSep(params)
    }
}

impl From<othello::Params> for Params {
    fn from(params: othello::Params) -> Self {
        Self::Othello(params)
    }
}

impl Params {
    /// Parameters for about `keys` keys with values of `value_bits` bits, in the structure's default form.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn for_keys(
        structure: Structure,
        keys: u64,
        value_bits: u8,
        partitions: PartitionCount,
    ) -> Result<Self, ParamsError> {
        Ok(match structure {
            Structure::SetSep => setsep::Params::for_keys(keys, value_bits, partitions)?.into(),
            Structure::Othello => othello::Params::for_keys(keys, value_bits, partitions)?.into(),
        })
    }

    /// Which structure they are for.
    pub const fn structure(&self) -> Structure {
        match self {
            Self::SetSep(_) => Structure::SetSep,
            Self::Othello(_) => Structure::Othello,
        }
    }

    /// How the key hash is cut into update streams.
    pub const fn partitions(&self) -> PartitionCount {
        either!(self, params => params.partitions())
    }

    /// Bits of a value.
    pub const fn value_bits(&self) -> u8 {
        either!(self, params => params.value_bits())
    }

    /// The same with other values.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn with_value_bits(self, value_bits: u8) -> Result<Self, ParamsError> {
        Ok(either!(self, params => params.with_value_bits(value_bits)?.into()))
    }

    /// The same with another seed.
    #[must_use]
    pub const fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::SetSep(params) => Self::SetSep(params.with_seed(seed)),
            Self::Othello(params) => Self::Othello(params.with_seed(seed)),
        }
    }

    /// The same for twice as many keys: twice the blocks or ranges. `None` if a delta could no longer carry a partition.
    pub fn doubled(self) -> Option<Self> {
        Some(match self {
            Self::SetSep(params) => params.with_blocks(params.blocks().checked_mul(2)?).ok()?.into(),
            Self::Othello(params) => {
                params.with_ranges(params.ranges_per_partition().checked_mul(2)?).ok()?.into()
            }
        })
    }

    /// Keys that a partition is made for; somewhat more fit.
    pub const fn keys_per_partition(&self) -> u64 {
        match self {
            Self::SetSep(params) => params.blocks_per_partition() as u64 * params.format().keys_per_block(),
            Self::Othello(params) => params.ranges_per_partition() as u64 * params.names_per_range(),
        }
    }
}

/// SetSep's 28 octets, or 0x80 and Othello's 32.
impl BorshSerialize for Params {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        match self {
            Self::SetSep(params) => writer.write_all(&params.encode()),
            Self::Othello(params) => {
                OTHELLO.serialize(writer)?;
                writer.write_all(&params.encode())
            }
        }
    }
}

impl BorshDeserialize for Params {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let first = u8::deserialize_reader(reader)?;
        let params = if first == OTHELLO {
            othello::Params::decode(&BorshDeserialize::deserialize_reader(reader)?)
                .map(|read| read.map(Self::from).ok())
        } else {
            let mut bytes = [first; setsep::PARAMS_BYTES];
            reader.read_exact(&mut bytes[1..])?;
            setsep::Params::decode(&bytes).map(|read| read.map(Self::from).ok())
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "invalid table parameters");
        params.flatten().ok_or_else(invalid)
    }
}
