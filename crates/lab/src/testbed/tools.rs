//! The programs the lab uses, and how to get them.

use super::LabError;
use super::exec::Cmd;
use scalebricks_console::{Console, Interrupt};
use std::env;
use std::path::Path;
use std::time::Duration;

/// Programs and their Debian packages.
const TOOLS: [(&str, &str); 10] = [
    ("ip", "iproute2"),
    ("bridge", "iproute2"),
    ("sysctl", "procps"),
    ("kill", "procps"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("iperf3", "iperf3"),
    ("dumpcap", "wireshark-common"),
    ("tshark", "tshark"),
];

/// How to get a program that is not there.
pub fn hint(program: &str) -> String {
    match TOOLS.iter().find(|(name, _)| *name == program) {
        Some((_, package)) => format!(" (on Debian: apt-get install {package})"),
        None => String::new(),
    }
}

/// Packages of programs that are on none of these directories.
fn missing(path: &[impl AsRef<Path>]) -> Vec<&'static str> {
    let absent =
        TOOLS.iter().filter(|(name, _)| !path.iter().any(|place| place.as_ref().join(name).is_file()));
    let mut packages: Vec<_> = absent.map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn path() -> Vec<std::path::PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// Makes sure that all are there: installs what is missing if that is wanted.
///
/// # Errors
/// [`LabError::Missing`] says what to install.
pub fn ensure(install: bool, console: &Console, interrupt: &Interrupt) -> Result<(), LabError> {
    let packages = missing(&path());
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    if install {
        console.note(&format!("installing {names}"));
        let apt = |what: &str| {
            let get = Cmd::new("env DEBIAN_FRONTEND=noninteractive apt-get -qy");
            get.words(what).limit(Duration::from_secs(300)).run(interrupt)
        };
        apt("update")?;
        apt(&format!("install --no-install-recommends {names}"))?;
    }
    let packages = missing(&path());
    if packages.is_empty() { Ok(()) } else { Err(LabError::Missing { packages: packages.join(" ") }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_once() {
        let nothing: [&str; 0] = [];
        let all = missing(&nothing);
        assert_eq!(all.iter().filter(|name| **name == "iproute2").count(), 1);
        assert!(hint("tshark").contains("apt-get install tshark") && hint("sh").is_empty());
    }
}
