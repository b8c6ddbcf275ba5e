//! Memory sizes that the system reports.

/// Bytes available without swapping; `None` if the system does not report them (only Linux does).
pub fn available_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Total bytes; `None` if the system does not report them.
pub fn total_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn parse(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found() {
        let name = "MemAvailable:";
        assert_eq!(parse("MemTotal:  9 kB\nMemAvailable:    2048 kB\n", name), Some(2 << 20));
        assert_eq!(parse("MemTotal:  9 kB\n", name), None);
        assert_eq!(parse("MemAvailable: much\n", name), None);
    }
}
