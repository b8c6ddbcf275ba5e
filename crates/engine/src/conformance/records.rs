//! Guarantees for records.

use super::{Lab, take};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{
    Engine, EngineError, MAX_KEY_BYTES, MAX_RECORD_BYTES, Record, Revision, SwapError,
};
use std::sync::Arc;

#[expect(clippy::unnecessary_wraps, reason = "what a swap wants")]
fn value(text: &str) -> Option<Arc<[u8]>> {
    Some(Arc::from(text.as_bytes()))
}

fn texts(records: &[Record]) -> Vec<(&str, Option<&str>)> {
    assert!(records.windows(2).all(|pair| pair[0].revision < pair[1].revision), "revisions rise");
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    records.iter().map(|record| (record.key.as_str(), record.value.as_deref().map(text))).collect()
}

/// A swap with another revision than the record's changes nothing and returns the record's.
pub async fn a_record_is_changed_only_at_its_revision(lab: &impl Lab) {
    let engine = lab.open().await;
    assert_eq!(engine.record("a.b").await, Ok(None));
    assert_eq!(engine.swap("a.b", Some(Revision(1)), value("x")).await, Err(SwapError::Conflict(None)));
    let first = engine.swap("a.b", None, value("one")).await.unwrap();
    let record = |revision, text| Ok(Some(Record { key: "a.b".to_owned(), revision, value: value(text) }));
    assert_eq!(engine.record("a.b").await, record(first, "one"));
    assert_eq!(engine.swap("a.b", None, value("x")).await, Err(SwapError::Conflict(Some(first))));
    let second = engine.swap("a.b", Some(first), value("two")).await.unwrap();
    assert_eq!(engine.swap("a.b", Some(first), value("x")).await, Err(SwapError::Conflict(Some(second))));
    assert_eq!(engine.swap("a.b", Some(first), None).await, Err(SwapError::Conflict(Some(second))));
    assert_eq!(engine.record("a.b").await, record(second, "two"));
    engine.swap("a.b", Some(second), None).await.unwrap();
    assert_eq!(engine.record("a.b").await, Ok(None));
    assert_eq!(engine.record("a").await, Ok(None));
}

/// A record that was deleted and created again has a new revision.
pub async fn revisions_rise_and_never_return(lab: &impl Lab) {
    let mut newest = Revision(0);
    for _ in 0..3 {
        let engine = lab.open().await;
        for _ in 0..3 {
            let made = engine.swap("k", None, value("")).await.unwrap();
            let changed = engine.swap("k", Some(made), value("x")).await.unwrap();
            let deleted = engine.swap("k", Some(changed), None).await.unwrap();
            assert!(newest < made && made < changed && changed < deleted);
            newest = deleted;
        }
    }
}

/// Of many swaps with the same expected revision one succeeds, and the others fail.
pub async fn of_swaps_at_the_same_time_one_wins(lab: &impl Lab) {
    let engine = lab.open().await;
    let mut at = None;
    for _ in 0..5 {
        let values: Vec<_> = (0..10).map(|i| value(&format!("value {i}"))).collect();
        let swaps = values.iter().map(|value| engine.swap("owner", at, value.clone()));
        let results = join_all(swaps).await;
        let winners: Vec<_> =
            results.iter().zip(&values).filter_map(|(r, v)| Some((r.clone().ok()?, v))).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let record = engine.record("owner").await.unwrap().unwrap();
        assert_eq!((record.revision, &record.value), (winners[0].0, winners[0].1));
        at = Some(record.revision);
    }
}

/// Records survive reopening the engine.
pub async fn records_outlive_the_engine(lab: &impl Lab) {
    let (kept, gone) = {
        let engine = lab.open().await;
        let kept = engine.swap("kept", None, value("v")).await.unwrap();
        let gone = engine.swap("gone", None, value("v")).await.unwrap();
        (kept, engine.swap("gone", Some(gone), None).await.unwrap())
    };
    let engine = lab.open().await;
    let record = engine.record("kept").await.unwrap().unwrap();
    assert_eq!((record.revision, record.value), (kept, value("v")));
    assert_eq!(engine.record("gone").await, Ok(None));
    assert!(engine.swap("kept", Some(kept), value("w")).await.unwrap() > gone);
}

/// Invalid keys and values over the limit are refused.
pub async fn keys_and_values_have_limits(lab: &impl Lab) {
    let engine = lab.open().await;
    let long = "k".repeat(MAX_KEY_BYTES);
    for key in [long.as_str(), "a-b_c.0.z"] {
        assert!(engine.swap(key, None, value("")).await.is_ok(), "{key}");
    }
    let too_long = format!("{long}k");
    for key in ["", ".", "a.", ".a", "a..b", "Key", "a b", "a*", "a>", "ü", &too_long] {
        assert!(matches!(engine.swap(key, None, value("")).await, Err(SwapError::Invalid(_))), "{key}");
        assert!(matches!(engine.record(key).await, Err(EngineError::Refused(_))), "{key}");
    }
    let large: Arc<[u8]> = Arc::from(vec![1; MAX_RECORD_BYTES + 1]);
    let result = engine.swap("large", None, Some(large.clone())).await;
    assert!(matches!(result, Err(SwapError::Invalid(_))));
    assert_eq!(engine.record("large").await, Ok(None));
    let fits: Arc<[u8]> = Arc::from(&large[..MAX_RECORD_BYTES]);
    engine.swap("large", None, Some(fits.clone())).await.unwrap();
    assert_eq!(engine.record("large").await.unwrap().unwrap().value, Some(fits));
    for prefix in ["a", ".", "A.", "a. "] {
        let refused = engine.watch_records(prefix).next().await;
        assert!(matches!(refused, Some(Err(EngineError::Refused(_)))), "{prefix}");
    }
}

/// First the existing records, then every change below the prefix, deletions included.
pub async fn a_watch_of_records_begins_with_what_is_there(lab: &impl Lab) {
    let engine = lab.open().await;
    let x = engine.swap("a.x", None, value("1")).await.unwrap();
    let gone = engine.swap("a.gone", None, value("1")).await.unwrap();
    engine.swap("a.gone", Some(gone), None).await.unwrap();
    engine.swap("ab.x", None, value("1")).await.unwrap();
    let mut below = engine.watch_records("a.");
    let mut all = engine.watch_records("");
    let first: Vec<_> = take(&mut below, 1).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(texts(&first), [("a.x", Some("1"))]);
    let first: Vec<_> = take(&mut all, 2).await.into_iter().map(Result::unwrap).collect();
    let mut first = texts(&first);
    first.sort_unstable();
    assert_eq!(first, [("a.x", Some("1")), ("ab.x", Some("1"))]);
    assert!(below.next().now_or_never().is_none());
    let changes = async {
        engine.swap("b.x", None, value("1")).await.unwrap();
        engine.swap("a.y", None, value("2")).await.unwrap();
        engine.swap("a.x", Some(x), None).await.unwrap();
    };
    let (seen, ()) = futures_util::future::join(take(&mut below, 2), changes).await;
    let seen: Vec<_> = seen.into_iter().map(Result::unwrap).collect();
    assert_eq!(texts(&seen), [("a.y", Some("2")), ("a.x", None)]);
    let seen: Vec<_> = take(&mut all, 3).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(texts(&seen), [("b.x", Some("1")), ("a.y", Some("2")), ("a.x", None)]);
}

/// A slow watcher gets the newest version of every record.
pub async fn a_watch_of_records_that_falls_behind_sees_the_newest(lab: &impl Lab) {
    let engine = lab.open().await;
    let mut watch = engine.watch_records("k.");
    let mut at = None;
    for i in 0..200 {
        at = Some(engine.swap("k.a", at, value(&i.to_string())).await.unwrap());
    }
    let b = engine.swap("k.b", None, value("b")).await.unwrap();
    let last = engine.swap("k.b", Some(b), None).await.unwrap();
    let (mut a, mut before) = (None, Revision(0));
    while let Some(record) = watch.next().await {
        let record = record.unwrap();
        assert!(record.revision > before);
        before = record.revision;
        match record.key.as_str() {
            "k.a" => a = record.value,
            "k.b" if record.revision == last => {
                assert_eq!(record.value, None);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(a, value("199"));
}
