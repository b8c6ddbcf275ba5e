//! The programs that the lab uses, and their installation.

use super::LabError;
use super::exec::Cmd;
use scalebricks_console::{Console, Interrupt};
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs and their Debian packages.
const TOOLS: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("bridge", "iproute2"),
    ("sysctl", "procps"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("iperf3", "iperf3"),
    ("dumpcap", "wireshark-common"),
    ("tshark", "tshark"),
];

/// The command that installs a program; empty for unknown programs.
pub fn hint(program: &str) -> String {
    let tool = TOOLS.iter().find(|(name, _)| *name == program);
    tool.map_or_else(String::new, |(_, package)| format!(" (on Debian: apt-get install {package})"))
}

/// Whether a program is on the PATH.
pub fn is_there(program: &str) -> bool {
    env::var_os("PATH").iter().flat_map(env::split_paths).any(|place| place.join(program).is_file())
}

/// Packages of the programs that none of these directories contains.
fn missing(path: &[impl AsRef<Path>]) -> Vec<&'static str> {
    let is_absent = |name: &str| !path.iter().any(|place| place.as_ref().join(name).is_file());
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|(name, _)| is_absent(name)).map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

/// Fails unless all programs are there; installs the missing ones if `install`.
///
/// # Errors
/// [`LabError::Missing`] names the packages.
pub fn ensure(install: bool, console: &Console, interrupt: &Interrupt) -> Result<(), LabError> {
    let path: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    let names = missing(&path).join(" ");
    if install && !names.is_empty() {
        console.note(&format!("installing {names}"));
        for what in ["update", &format!("install --no-install-recommends {names}")] {
            let get = Cmd::new("env DEBIAN_FRONTEND=noninteractive apt-get -qy");
            get.words(what).limit(Duration::from_secs(300)).run(interrupt)?;
        }
    }
    let names = missing(&path).join(" ");
    if names.is_empty() { Ok(()) } else { Err(LabError::Missing(names)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_package_is_named_once() {
        let nothing: [&str; 0] = [];
        let all = missing(&nothing);
        assert_eq!(all.iter().filter(|name| **name == "iproute2").count(), 1);
        assert!(hint("tshark").contains("apt-get install tshark") && hint("sh").is_empty());
    }
}
