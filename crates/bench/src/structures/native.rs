//! The processor that this binary was compiled for.
//!
//! Our kernels are selected at run time. Structures of other authors use what the compiler was allowed to
//! use, so they perform best only in a binary compiled for this processor (`-C target-cpu=native`, as in
//! `scripts/bench.sh`).

use scalebricks_tables::isa::hides_cache_latency;

/// Relevant instruction sets: name, whether the compiler could use them, and whether the processor has them.
#[cfg(target_arch = "x86_64")]
fn instructions() -> [(&'static str, bool, bool); 8] {
    macro_rules! each {
        ($($name:tt)*) => { [$(($name, cfg!(target_feature = $name), is_x86_feature_detected!($name))),*] };
    }
    each!("sse4.2" "popcnt" "bmi1" "bmi2" "avx2" "avx512f" "avx512bw" "avx512vl")
}

/// On other architectures, every processor has the same instructions.
#[cfg(not(target_arch = "x86_64"))]
const fn instructions() -> [(&'static str, bool, bool); 0] {
    []
}

/// Whether the compiler could use everything that this processor has.
pub fn is_native() -> bool {
    instructions().iter().all(|&(_, compiled, there)| compiled || !there)
}

/// A note for structures that depend on the compiler, if it could not.
pub fn handicap() -> Option<&'static str> {
    (!is_native()).then_some("compiled for any processor")
}

/// The target processor in words, for reports.
pub fn compiled_for() -> String {
    let used: Vec<&str> = instructions().iter().filter(|each| each.1).map(|each| each.0).collect();
    match (is_native(), used.as_slice()) {
        (true, []) => "compiled for this processor".to_owned(),
        (true, used) => format!("compiled for this processor ({})", used.join(", ")),
        (false, []) => "compiled for any processor".to_owned(),
        (false, used) => format!("compiled for another processor ({})", used.join(", ")),
    }
}

/// In which tables long lookups prefetch on this processor, in words.
pub fn prefetching() -> &'static str {
    if hides_cache_latency() {
        "lookups prefetch in tables of 16 MiB and more"
    } else {
        "lookups prefetch in tables larger than a private cache"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compiled_is_what_is_told() {
        let avx2 = cfg!(target_feature = "avx2");
        assert_eq!(compiled_for().contains("avx2"), avx2);
        assert_eq!(handicap().is_none(), is_native());
        #[cfg(target_arch = "x86_64")]
        assert!(avx2 || !is_native() || !is_x86_feature_detected!("avx2"));
        assert_eq!(compiled_for().contains("this processor"), is_native());
    }
}
