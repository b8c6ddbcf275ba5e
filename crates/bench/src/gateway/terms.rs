//! The terms on which tables are compared: keys a call, bits of a value, and the pages that they got.

use crate::session::Session;
use scalebricks_console::quantity::bytes;
use scalebricks_report::exhibit::Sheet;

/// Bytes of this process on transparent huge pages now; `None` if the system does not say.
pub fn transparent_huge_bytes() -> Option<u64> {
    of_rollup(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?)
}

fn of_rollup(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Leaves the table that says so. `huge` is what the process had on transparent huge pages while the largest tables were there.
pub fn tell(session: &mut Session<'_>, huge: Option<u64>) {
    let ours = huge.map_or_else(
        || "transparent huge pages asked for; the system does not say what it gave".to_owned(),
        |huge| format!("transparent huge pages asked for: {} in all", bytes(huge)),
    );
    let mut sheet = Sheet::new("gateway-terms", &["table", "keys a call", "value bits", "pages"]);
    let mut row = |cells: [&str; 4]| sheet.rows.push(cells.map(str::to_owned).to_vec());
    row(["cuckoo, chained-hash", "64", "128", &ours]);
    row(["SetSep", "64", "2", &ours]);
    #[cfg(feature = "dpdk")]
    {
        use scalebricks_dpdk::peers::{EFD_VALUE_BITS, HASH_KEYS, KEYS};
        let pages = match super::dpdk::has_huge_pages() {
            Some(true) => "huge pages set aside for DPDK",
            _ => "ordinary pages: the system had set too few huge ones aside",
        };
        row(["rte_hash", &HASH_KEYS.to_string(), "128, in an array beside it", pages]);
        row(["EFD", &format!("{KEYS}, its most"), &EFD_VALUE_BITS.to_string(), pages]);
    }
    session.tabulate(sheet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_read_from_the_rollup() {
        let text = "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 12 kB\nAnonHugePages:      4096 kB\n";
        assert_eq!(of_rollup(text), Some(4 << 20));
        assert_eq!(of_rollup("Rss: 12 kB\n"), None);
    }
}
