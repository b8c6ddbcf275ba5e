//! Which stages a core has.

use std::fmt;
use std::str::FromStr;

/// Most cores of a placement.
pub const MAX_CORES: usize = 256;

/// The stages of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// It receives packets and balances them.
    pub has_input: bool,
    /// It tracks flows.
    pub has_application: bool,
}

/// The stages of all cores: as text `K`, both stages on each of K cores, or `I+K`, I cores with the input stage and K others
/// with the application stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    cores: Vec<Core>,
}

/// Why there is no such placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not a number of cores.
    #[error("write a number of cores such as 4, or input and application cores such as 1+6, not {0:?}")]
    Text(String),
    /// A stage is on no core.
    #[error("a placement needs at least one core for each stage")]
    NoCore,
    /// Too many.
    #[error("{0} cores: a placement has at most {MAX_CORES}")]
    TooMany(usize),
}

impl Placement {
    /// These cores.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn new(cores: Vec<Core>) -> Result<Self, PlacementError> {
        if cores.len() > MAX_CORES {
            return Err(PlacementError::TooMany(cores.len()));
        }
        if !cores.iter().any(|core| core.has_input) || !cores.iter().any(|core| core.has_application) {
            return Err(PlacementError::NoCore);
        }
        Ok(Self { cores })
    }

    /// Each core receives, and runs each packet of its own flows to completion. Packets of other cores' flows go there over a
    /// ring, so that flows stay together whatever the devices' queues do.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn run_to_completion(cores: usize) -> Result<Self, PlacementError> {
        Self::of([(cores, Core { has_input: true, has_application: true })])
    }

    /// So many cores receive for so many others.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn pipeline(inputs: usize, applications: usize) -> Result<Self, PlacementError> {
        let input = Core { has_input: true, has_application: false };
        Self::of([(inputs, input), (applications, Core { has_input: false, has_application: true })])
    }

    fn of<const N: usize>(groups: [(usize, Core); N]) -> Result<Self, PlacementError> {
        let all = groups.iter().fold(0_usize, |all, (count, _)| all.saturating_add(*count));
        if all > MAX_CORES {
            return Err(PlacementError::TooMany(all));
        }
        Self::new(groups.into_iter().flat_map(|(count, core)| std::iter::repeat_n(core, count)).collect())
    }

    /// The cores.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Numbers of the cores that track flows, in order: flow balancing's outputs.
    pub fn applications(&self) -> impl Iterator<Item = usize> {
        self.cores.iter().enumerate().filter(|(_, core)| core.has_application).map(|(number, _)| number)
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Self, PlacementError> {
        let number = |text: &str| -> Result<usize, PlacementError> {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten().ok_or_else(|| PlacementError::Text(text.to_owned()))
        };
        match text.split_once('+') {
            Some((inputs, applications)) => Self::pipeline(number(inputs)?, number(applications)?),
            None => Self::run_to_completion(number(text)?),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |input: bool, application: bool| {
            let is_it = |core: &&Core| (core.has_input, core.has_application) == (input, application);
            self.cores.iter().filter(is_it).count()
        };
        match (count(true, true), count(true, false), count(false, true)) {
            (both, 0, 0) => write!(f, "{both}"),
            (0, inputs, applications) => write!(f, "{inputs}+{applications}"),
            (both, inputs, applications) => write!(f, "{both} both, {inputs}+{applications}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_from_text() {
        let read = |text: &str| text.parse::<Placement>();
        for text in ["1", "4", "1+6", "2+3", "256"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("1+2").unwrap().applications().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(read("2").unwrap().applications().collect::<Vec<_>>(), [0, 1]);
        for none in ["0", "0+1", "1+0"] {
            assert_eq!(read(none), Err(PlacementError::NoCore), "{none}");
        }
        for wrong in ["", "+", "1+", "-1", "x", "1+2+3", "99999999999999999999999"] {
            assert!(matches!(read(wrong), Err(PlacementError::Text(_))), "{wrong}");
        }
        assert_eq!(read("257"), Err(PlacementError::TooMany(257)));
        assert_eq!(read("18446744073709551615+1"), Err(PlacementError::TooMany(usize::MAX)));
    }
}
