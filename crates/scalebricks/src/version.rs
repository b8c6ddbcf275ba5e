//! What this program was built from.

use scalebricks_daemon::runtime::dpdk_version;
use std::sync::LazyLock;

/// The version, and the commit.
pub const fn short() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("SCALEBRICKS_COMMIT"), ")")
}

/// The same with the features and the version of DPDK.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let dpdk = dpdk_version().unwrap_or_else(|| "not built in".to_owned());
        format!("{}\nfeatures: {}\nDPDK: {}", short(), features(), dpdk.trim_start_matches("DPDK "))
    });
    &LONG
}

/// The optional features that are built in.
const fn features() -> &'static str {
    if cfg!(feature = "dpdk") { "dpdk" } else { "none" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_commit_features_and_dpdk() {
        let long = long();
        assert!(long.starts_with(env!("CARGO_PKG_VERSION")), "{long}");
        let commit = env!("SCALEBRICKS_COMMIT").trim_end_matches("-dirty");
        assert!(commit == "unknown" || commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
        assert_eq!(long.contains("DPDK: not built in"), !cfg!(feature = "dpdk"), "{long}");
        assert_eq!(long.contains("features: dpdk"), cfg!(feature = "dpdk"), "{long}");
    }
}
