//! Compares the wheel with a sorted map.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TICK: u64 = 1 << 20;

fn at(tick: u64) -> Duration {
    Duration::from_nanos(tick.saturating_mul(TICK))
}

/// The reference: timers by tick, then in the order of setting.
#[derive(Default)]
struct Sorted {
    timers: BTreeMap<(u64, usize), (TimerId, Expired)>,
    tick: u64,
    set: usize,
}

impl Sorted {
    fn set(&mut self, tick: u64, id: TimerId, timer: Expired) {
        self.set += 1;
        self.timers.insert((tick.max(self.tick + 1), self.set), (id, timer));
    }

    fn expired(&mut self, now: u64) -> Vec<Expired> {
        self.tick = self.tick.max(now);
        let later = self.timers.split_off(&(self.tick + 1, 0));
        std::mem::replace(&mut self.timers, later).into_values().map(|(_, timer)| timer).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Set(u64),
    Cancel(usize),
    Pass(u64),
    Renumber(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let far = prop_oneof![0..3u64, 0..70u64, 0..5_000u64, 0..400_000u64, 0..15_000_000u64];
    let step = prop_oneof![
        4 => far.clone().prop_map(Step::Set),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => far.prop_map(Step::Pass),
        1 => (0..3u16).prop_map(Step::Renumber),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn timers_run_out_as_in_a_sorted_map(steps in steps()) {
        let (mut wheel, mut sorted) = (Wheel::new(1_000), Sorted::default());
        let mut ids = Vec::new();
        let mut now = 0;
        for (token, step) in (0..).zip(steps) {
            match step {
                Step::Set(after) => {
                    let timer = Expired { node: token as u16 % 3, token };
                    let id = wheel.set(at(now + after), timer.node, token).unwrap();
                    sorted.set(now + after, id, timer);
                    ids.push(id);
                }
                Step::Cancel(which) if !ids.is_empty() => {
                    let id = ids[which % ids.len()];
                    let there = sorted.timers.iter().find(|(_, (other, _))| *other == id).map(|(key, _)| *key);
                    prop_assert_eq!(wheel.cancel(id), there.is_some());
                    there.and_then(|key| sorted.timers.remove(&key));
                }
                Step::Cancel(_) => {}
                Step::Pass(time) => {
                    now += time;
                    let expired: Vec<Expired> = std::iter::from_fn(|| wheel.expired(at(now))).collect();
                    prop_assert_eq!(expired, sorted.expired(now));
                }
                Step::Renumber(gone) => {
                    wheel.renumber(|node| (node != gone).then_some(node));
                    sorted.timers.retain(|_, (_, timer)| timer.node != gone);
                }
            }
            prop_assert_eq!(wheel.len(), sorted.timers.len());
        }
    }
}

#[test]
fn a_timer_is_never_early_and_at_most_a_tick_late() {
    let mut wheel = Wheel::new(10);
    let due = Duration::from_nanos(5 * TICK + 1);
    wheel.set(due, 1, 2).unwrap();
    assert_eq!(wheel.expired(due), None);
    assert_eq!(wheel.expired(at(6)), Some(Expired { node: 1, token: 2 }));
    wheel.set(at(9), 1, 3).unwrap();
    assert_eq!(wheel.expired(Duration::from_nanos(9 * TICK - 1)), None);
    assert_eq!(wheel.expired(at(9)), Some(Expired { node: 1, token: 3 }));
}

#[test]
fn beyond_the_horizon_timers_are_not_early() {
    let mut wheel = Wheel::new(10);
    wheel.set(at(3 * HORIZON + 5), 0, 1).unwrap();
    wheel.set(Duration::MAX, 0, 2).unwrap();
    for tick in (0..3 * HORIZON).step_by(HORIZON as usize / 3) {
        assert_eq!(wheel.expired(at(tick)), None);
    }
    assert_eq!(wheel.expired(at(3 * HORIZON + 4)), None);
    assert_eq!(wheel.expired(at(3 * HORIZON + 5)), Some(Expired { node: 0, token: 1 }));
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_full_wheel_takes_no_timer_and_a_used_one_is_not_cancelled() {
    let mut wheel = Wheel::new(2);
    let first = wheel.set(at(1), 0, 1).unwrap();
    wheel.set(at(2), 0, 2).unwrap();
    assert_eq!(wheel.set(at(3), 0, 3), None);
    assert!(wheel.expired(at(1)).is_some());
    let again = wheel.set(at(3), 0, 3).unwrap();
    assert!(!wheel.cancel(first), "its entry is another timer's now");
    assert!(wheel.cancel(again) && !wheel.cancel(again));
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_century_with_a_timer_at_its_end_takes_few_steps() {
    let mut wheel = Wheel::new(10);
    let century = Duration::from_secs(3_155_760_000);
    wheel.set(Duration::from_secs(1), 1, 1).unwrap();
    wheel.set(century, 2, 2).unwrap();
    assert_eq!(wheel.expired(century * 2), Some(Expired { node: 1, token: 1 }));
    wheel.set(century * 3, 3, 3).unwrap();
    assert_eq!(wheel.expired(century * 2), Some(Expired { node: 2, token: 2 }));
    assert_eq!(wheel.expired(century * 2), None);
    assert_eq!(wheel.expired(century * 3 + Duration::from_millis(2)), Some(Expired { node: 3, token: 3 }));
}
