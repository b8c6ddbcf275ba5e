//! Nodes of a cluster router.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

mod cluster;
mod frr;
mod interface;
mod node;
#[cfg(feature = "dpdk")]
mod process;

use std::process::Command;

/// Runs `ip`.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    let said = || format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(()) } else { Err(said()) }
}

/// Network namespaces; removed on drop.
pub(crate) struct Namespaces(pub(crate) Vec<String>);

impl Namespaces {
    /// Creates namespaces whose names are unique for this process and test.
    pub(crate) fn new(test: &str, ends: &[&str]) -> Result<Self, String> {
        let mut made = Self(Vec::new());
        for end in ends {
            let name = format!("sb-{test}-{}-{end}", std::process::id());
            ip(&format!("netns add {name}"))?;
            made.0.push(name.clone());
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(made)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _gone = ip(&format!("netns del {name}"));
        }
    }
}
