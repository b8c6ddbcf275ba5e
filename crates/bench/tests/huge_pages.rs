//! Checks that all structures are on huge pages in a binary with the allocator of `scalebricks`.

use scalebricks_allocator::HugePages;
use scalebricks_bench::keys::KeySet;
use scalebricks_bench::structures::{BuildConfig, Structure, with_pages};
use scalebricks_tables::huge::HUGE_PAGE;
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Enough keys that the smallest structure has several huge pages.
const KEYS: u64 = 6_000_000;

/// Runs one test at a time, because both count the huge pages of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether the system grants huge pages on request.
fn are_granted() -> bool {
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    HugePages::held_bytes().is_some() && !mode.contains("[never]") && !mode.is_empty()
}

/// Resident bytes of this process in mappings that request huge pages (`hg` in the flags of
/// `proc_pid_smaps(5)`).
fn asked_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut rss_kib, mut sum_kib) = (0_u64, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            rss_kib = size.trim_end_matches("kB").trim().parse().unwrap_or(0);
        } else if line
            .strip_prefix("VmFlags:")
            .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hg"))
        {
            sum_kib += rss_kib;
        }
    }
    sum_kib << 10
}

/// How often the machine could not grant a requested huge page since it started.
fn refusals() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("thp_fault_fallback "))
        .map_or(0, |count| count.parse().unwrap_or(0))
}

#[test]
fn every_structure_lies_on_huge_pages() {
    if !are_granted() {
        assert!(std::env::var_os("REQUIRE_HUGE_PAGES").is_none(), "this system grants no huge pages");
        return;
    }
    let _alone = ALONE.lock();
    assert!(HugePages::turn_on(), "something large was there before");
    let set = KeySet::new(KEYS, 8);
    let all = Structure::built_in();
    Structure::start(&all, &[KEYS]).unwrap();
    for structure in all {
        // The allocator may still hold pages of the structure before, and the kernel splits pages when it is short of
        // memory: three attempts.
        let mut problem = Some(String::new());
        for _ in 0..3 {
            if problem.is_some() {
                problem = problem_of(structure, &set);
            }
        }
        assert_eq!(problem, None);
    }
}

/// Why a structure does not lie on huge pages.
#[expect(clippy::panic, reason = "fails the test")]
fn problem_of(structure: Structure, set: &KeySet) -> Option<String> {
    let (asked, refused) = (asked_bytes(), refusals());
    let (table, share) = with_pages(|| structure.prepare(set, BuildConfig::table())?())
        .unwrap_or_else(|error| panic!("{error}"));
    let asked = asked_bytes().saturating_sub(asked);
    let refused = refusals() - refused;
    let (name, bytes, share) = (structure.name(), table.table_bytes(), share.unwrap_or_default());
    if table.on_huge_pages() == Some(false) {
        let note = structure.note().unwrap_or_default();
        assert!(note.contains("ordinary pages"), "{name} does not say so: {note}");
        return None;
    }
    // Small parts such as directories are not on huge pages, and the end of a large part may fill no whole one.
    assert!(bytes > 3 * HUGE_PAGE as u64, "{name}: too small to tell");
    if table.on_huge_pages().is_none() && asked as f64 <= 0.85 * bytes as f64 {
        return Some(format!("{name}: asks for huge pages for {asked} of {bytes} bytes"));
    }
    // A machine with fragmented memory may have no huge pages left, and counts the failures.
    let with_end = share * bytes as f64 + HUGE_PAGE as f64;
    let is_granted = with_end > 0.85 * bytes as f64 || refused > 0;
    (!is_granted).then(|| format!("{name}: {share} of {bytes} bytes, and none was refused"))
}

#[test]
fn a_vector_of_two_megabytes_is_one_huge_page() {
    let _alone = ALONE.lock();
    if !are_granted() || !HugePages::turn_on() {
        return;
    }
    let refused = refusals();
    let block = vec![1_u8; HUGE_PAGE];
    assert_eq!(block.as_ptr().align_offset(HUGE_PAGE), 0);
    assert!(asked_bytes() >= HUGE_PAGE as u64);
    assert!(HugePages::held_bytes() >= Some(HUGE_PAGE as u64) || refusals() > refused);
}
