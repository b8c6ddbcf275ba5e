//! The instruction sets that a kernel may use: detected once at run time, or forced.
//!
//! Every kernel has a portable form, which defines its result, and faster forms that must return the same
//! bits. A form that this processor does not support is not offered: [`Isa::available`] does not list it, and
//! no kernel can be made with it.

use std::sync::LazyLock;

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

/// Whether this processor hides the latency of the cache that its cores share by itself, by starting the loads of later
/// keys early. Lookups of many keys then prefetch only in tables that are larger than that cache.
///
/// It is true of AMD's family 26 (Zen 5), where it was measured, and taken to be false of all others. Source:
/// `docs/adr/0058-prefetch-by-processor.md`.
#[inline]
pub fn hides_cache_latency() -> bool {
    static HIDES: LazyLock<bool> = LazyLock::new(|| amd_family() == Some(26));
    *HIDES
}

/// The family of a processor made by AMD.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn amd_family() -> Option<u32> {
    use std::arch::x86_64::__cpuid;
    #[allow(unsafe_code, unused_unsafe, reason = "a safe function since Rust 1.94")]
    // SAFETY: every x86-64 processor has this instruction, and leaves 0 and 1.
    let [vendor, version] = unsafe { [__cpuid(0), __cpuid(1)] };
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    // The family is the sum of two fields if the first is full.
    let (base, extended) = (version.eax >> 8 & 0xF, version.eax >> 20 & 0xFF);
    (name.as_flattened() == b"AuthenticAMD").then_some(base + if base == 0xF { extended } else { 0 })
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
const fn amd_family() -> Option<u32> {
    None
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
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[cfg_attr(miri, ignore = "the interpreter has no processor")]
    fn the_family_is_the_one_that_the_kernel_tells() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let field = |name: &str| {
            let mut fields = info.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(found, _)| found.trim() == name).unwrap().1.trim().to_owned()
        };
        let family = field("cpu family").parse().unwrap();
        assert_eq!(amd_family(), (field("vendor_id") == "AuthenticAMD").then_some(family));
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
