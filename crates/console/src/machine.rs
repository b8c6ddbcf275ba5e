//! The machine a run was measured on, as far as the system tells.

use crate::memory;
use crate::quantity::bytes;
use std::fs;

/// The processor's name; its architecture where the system does not tell.
pub fn cpu() -> String {
    let named = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| model(&info));
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Cores the process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores, memory, kernel and the mode of transparent huge pages, for a reader: `2 cores, 23.4 GiB, Linux 6.12.0, THP
/// madvise`.
pub fn description() -> String {
    let mut parts = vec![match cores() {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    }];
    parts.extend(memory::total_bytes().map(bytes));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    parts.push(kernel.map_or_else(|| std::env::consts::OS.to_owned(), |k| format!("Linux {}", k.trim())));
    let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    parts.push(format!("THP {}", modes.as_deref().and_then(chosen).unwrap_or("unknown")));
    parts.join(", ")
}

fn model(info: &str) -> Option<String> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The mode in brackets.
fn chosen(modes: &str) -> Option<&str> {
    Some(modes.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modes_are_found() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A B\n").as_deref(), Some("A B"));
        assert_eq!(model("processor\t: 0\n"), None);
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert!(description().contains("core"));
    }
}
