//! The generated tables, destinations and checks.

use super::family::Family;
use super::table::{NO_HOP, Task};
use super::*;
use crate::options::Options;
use crate::row::SelectRows;
use scalebricks_tables::lpm::Prefix;

fn prefix<A: Family>(text: &str) -> Prefix<A>
where
    A::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

#[test]
fn destinations_of_ipv4_are_spread_over_the_routed_space() {
    // A /9 and a /10 in it, a /10 beside it: three quarters of the routed addresses are in the /9.
    let routes: Routes<Ipv4Addr> = [("10.0.0.0/9", 1), ("10.64.0.0/10", 2), ("20.0.0.0/10", 3)]
        .map(|(text, hop)| (prefix(text), hop))
        .into();
    let task = Task::new(routes, &[30_000], 10).unwrap();
    let count = |wanted: &str| {
        let wanted: Prefix<Ipv4Addr> = prefix(wanted);
        task.destinations[0].iter().filter(|address| wanted.contains(**address)).count()
    };
    let all = ["10.0.0.0/10", "10.64.0.0/10", "20.0.0.0/10"].map(count);
    assert_eq!(all.iter().sum::<usize>(), 30_000);
    assert!(all.iter().all(|count| (9_500..10_500).contains(count)), "{all:?}");
}

#[test]
fn groups_are_counted_once_a_level() {
    let v4 =
        ["10.0.0.0/8", "10.0.0.0/25", "10.0.0.128/26", "10.0.1.0/32"].map(|text| (prefix(text), 0)).into();
    assert_eq!(Ipv4Addr::groups(&v4), 2);
    let v6 = ["2001:db8::/32", "2001:db8::/48", "2001:db8:0:1::/64", "2001:db9::/33"]
        .map(|text| (prefix(text), 0));
    // After 24 bits one, after 32 two, after 40 one, after 48 and 56 one each.
    assert_eq!(Ipv6Addr::groups(&v6.into()), 6);
}

#[test]
fn a_wrong_or_missing_answer_is_found() {
    let task = Task::new(vec![(prefix::<Ipv4Addr>("10.0.0.0/8"), 5)], &[3], 1).unwrap();
    task.check(0, "x", &[5, 5, 5]).unwrap();
    for wrong in [&[5, 5, NO_HOP][..], &[5, 5]] {
        assert!(task.check(0, "x", wrong).is_err());
    }
}

#[test]
fn generated_tables_have_distinct_prefixes_of_all_lengths() {
    let routes = generated::<Ipv6Addr>(3_000);
    let lengths: std::collections::BTreeSet<u8> = routes.iter().map(|(prefix, _)| prefix.length()).collect();
    assert_eq!((routes.len(), lengths.len()), (3_000, Ipv6Addr::LENGTHS.len()));
    assert!(routes.iter().all(|(_, hop)| *hop < NEXT_HOPS));
}

#[test]
fn a_table_file_is_measured() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "0.0.0.0/0 9\n10.0.0.0/8 1\n10.1.0.0/25 2\n2001:db8::/32 3\n2001:db8::/48 4\n",
    )
    .unwrap();
    let options = Options {
        quick: true,
        runs: Some(1),
        batches: Some(vec![1, 64]),
        routes: vec![file.path().to_owned()],
        ..Options::default()
    };
    let mut bench = BenchRun::for_test("lpm", options);
    run(&mut bench).unwrap();
    let rows = bench.rows();
    let keys: Vec<u64> =
        rows.iter().metric(Metric::LoadTime).structure("lpm").map(|row| row.case.keys).collect();
    assert_eq!(keys, [2; 8], "without the default route");
    let variants = |entries: &str| {
        let of_ours = rows.iter().metric(Metric::LookupRate).structure("lpm");
        of_ours.filter(|row| row.case.variant.as_deref().is_some_and(|text| text.contains(entries))).count()
    };
    assert_eq!([variants("2-byte"), variants("4-byte")].map(|count| count > 0), [true; 2]);
    assert_eq!(rows.iter().metric(Metric::HugePages).structure("lpm").count() % 8, 0);
    assert!(rows.iter().metric(Metric::UpdateRate).count() >= 8);
}
