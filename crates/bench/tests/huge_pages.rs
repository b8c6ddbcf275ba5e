//! All structures lie on huge pages alike, in a binary with the allocator of `scalebricks`.

use scalebricks_bench::contestants::{Make, Structure, with_pages};
use scalebricks_bench::huge::HugePages;
use scalebricks_bench::keys::KeySet;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Keys: so many that the smallest of the structures has some megabytes.
const KEYS: u64 = 3_000_000;

/// Whether the system grants huge pages to those who ask.
fn are_granted() -> bool {
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    HugePages::held_bytes().is_some() && !mode.contains("[never]") && !mode.is_empty()
}

#[test]
fn every_structure_lies_on_huge_pages() {
    if !are_granted() {
        assert!(std::env::var_os("REQUIRE_HUGE_PAGES").is_none(), "this system grants no huge pages");
        return;
    }
    assert!(HugePages::turn_on(), "something large was there before");
    let set = KeySet::new(KEYS, 8);
    let all = Structure::built_in();
    Structure::start(&all, &[KEYS]).unwrap();
    for structure in all {
        let (table, share) = with_pages(|| structure.prepare(&set, Make::table())?.build())
            .unwrap_or_else(|error| panic!("{error}"));
        let share = share.unwrap_or_default();
        if table.on_huge_pages() == Some(false) {
            let note = structure.note().unwrap_or_default();
            assert!(note.contains("ordinary pages"), "{} does not tell: {note}", structure.name());
            continue;
        }
        // Small parts, such as directories, are not; a buffer of a megabyte more or less is no handicap.
        assert!(table.table_bytes() > 3 << 20, "{}: too small to tell", structure.name());
        assert!(share > 0.85, "{}: {share} of {} bytes", structure.name(), table.table_bytes());
    }
}

#[test]
fn a_vector_of_two_megabytes_is_one_huge_page() {
    if !are_granted() || !HugePages::turn_on() {
        return;
    }
    let block = vec![1_u8; 2 << 20];
    assert_eq!(block.as_ptr().align_offset(2 << 20), 0);
    assert!(HugePages::held_bytes() >= Some(2 << 20));
}
