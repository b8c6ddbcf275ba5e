//! The instruction sets that a kernel may use: detected once at run time, or forced.
//!
//! Every kernel has a portable form, which defines its result, and faster forms that must return the same
//! bits. A form that this processor does not support is not offered: [`Isa::available`] does not list it, and
//! no kernel can be made with it.

/// A level of instruction sets. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust: runs on any processor.
    Portable,
    /// AVX2, BMI1/2 and POPCNT (x86-64-v3).
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VL (x86-64-v4).
    Avx512,
    /// The AVX-512 level with VBMI, VBMI2, VPOPCNTDQ and GFNI (Ice Lake, Zen 4 and later).
    Avx512Gfni,
}

impl Isa {
    /// All levels, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Gfni];

    /// The name that the command line and the measurements use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Gfni => "avx512-gfni",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Whether this processor and the operating system support it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Gfni => {
                Self::Avx512.is_available()
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("avx512vpopcntdq")
                    && is_x86_feature_detected!("gfni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The levels that this processor supports, slowest first; never empty.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The fastest level that this processor supports.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An [`Isa`] that was detected on this processor. Its existence makes it sound to call a kernel's fast form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AvailableIsa(Isa);

impl AvailableIsa {
    /// The requested instruction set, or the portable one if this processor lacks it.
    pub(crate) fn new(isa: Isa) -> Self {
        Self(if isa.is_available() { isa } else { Isa::Portable })
    }

    /// The instruction set; this processor supports it.
    pub(crate) const fn isa(self) -> Isa {
        self.0
    }
}

/// The levels that a kernel test compares: all that this processor supports. With `REQUIRE_AVX512=1`, a test
/// fails if one of the first three is not supported.
#[cfg(test)]
pub(crate) fn compared() -> Vec<Isa> {
    let (there, lacks): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    for isa in &lacks {
        println!("skipped: {isa}");
    }
    assert!(
        !is_avx512_required() || there.contains(&Isa::Avx512),
        "required, but this processor lacks {lacks:?}"
    );
    there
}

/// Whether the test requires AVX-512. An interpreter (Miri) never does.
#[cfg(test)]
fn is_avx512_required() -> bool {
    !cfg!(miri) && std::env::var_os("REQUIRE_AVX512").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_on_all_levels_of_this_processor() {
        assert_eq!(compared(), Isa::available().collect::<Vec<_>>());
        assert!(!is_avx512_required() || Isa::best() >= Isa::Avx512);
    }

    #[test]
    fn the_portable_form_is_always_there_and_levels_contain_each_other() {
        assert_eq!(Isa::available().next(), Some(Isa::Portable));
        let available: Vec<Isa> = Isa::available().collect();
        assert_eq!(available, Isa::ALL[..available.len()]);
        assert!(Isa::ALL.iter().all(|isa| Isa::from_name(isa.name()) == Some(*isa)));
        assert_eq!(Isa::from_name("sse9"), None);
    }
}
