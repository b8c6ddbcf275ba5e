//! The conditions under which tables are compared: keys per call, bits per value, and memory pages.

use crate::bench_run::BenchRun;
use scalebricks_console::quantity::bytes;
use scalebricks_report::exhibit::PageTable;

/// Adds the table of conditions. `huge` is the process's memory on transparent huge pages while the largest
/// tables existed.
pub fn add_table(bench: &mut BenchRun<'_>, huge: Option<u64>) {
    let ours = huge.map_or_else(
        || "transparent huge pages asked for; the system does not say what it gave".to_owned(),
        |huge| format!("transparent huge pages asked for: {} in all", bytes(huge)),
    );
    let mut sheet = PageTable::new("gateway-terms", &["table", "keys a call", "value bits", "pages"]);
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
    bench.add_table(sheet);
}
