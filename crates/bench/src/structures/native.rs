//! For which processor this binary was compiled.
//!
//! Our kernels are chosen when they run. Structures of other authors use what the compiler was allowed to: they are at their
//! best only in a binary for the processor it runs on (`-C target-cpu=native`, as `scripts/bench.sh` has it).

/// Instructions that matter here: by name, whether the compiler was allowed to use them, and whether they are there.
#[cfg(target_arch = "x86_64")]
fn instructions() -> [(&'static str, bool, bool); 8] {
    macro_rules! each {
        ($($name:tt)*) => { [$(($name, cfg!(target_feature = $name), is_x86_feature_detected!($name))),*] };
    }
    each!("sse4.2" "popcnt" "bmi1" "bmi2" "avx2" "avx512f" "avx512bw" "avx512vl")
}

/// Elsewhere what is there is what every processor has.
#[cfg(not(target_arch = "x86_64"))]
const fn instructions() -> [(&'static str, bool, bool); 0] {
    []
}

/// Whether the compiler was allowed to use all that this processor has.
pub fn is_native() -> bool {
    instructions().iter().all(|&(_, compiled, there)| compiled || !there)
}

/// What rows of structures that only the compiler can make faster must say, if it was not allowed to.
pub fn handicap() -> Option<&'static str> {
    (!is_native()).then_some("compiled for any processor")
}

/// For which processor, in words for a report.
pub fn compiled_for() -> String {
    let used: Vec<&str> = instructions().iter().filter(|each| each.1).map(|each| each.0).collect();
    match (is_native(), used.as_slice()) {
        (true, []) => "compiled for this processor".to_owned(),
        (true, used) => format!("compiled for this processor ({})", used.join(", ")),
        (false, []) => "compiled for any processor".to_owned(),
        (false, used) => format!("compiled for another processor ({})", used.join(", ")),
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
