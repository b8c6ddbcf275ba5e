//! Errors by what is known, by script and against a twin that forgets nothing.

use super::*;
use proptest::prelude::*;
use scalebricks_types::Teid;
use std::collections::{BTreeSet, VecDeque};

const RAN: OutputPort = OutputPort::BaseStation;

type Answer = Box<dyn FnOnce(Option<bool>) + Send>;

/// Answers on demand.
#[derive(Default)]
struct Asked {
    has_caught_up: bool,
    questions: VecDeque<(FlowKey, Answer)>,
    count: usize,
}

struct Script(Arc<Mutex<Asked>>);

impl Owners for Script {
    fn has_caught_up(&self) -> bool {
        self.0.lock().unwrap().has_caught_up
    }

    fn ask(&self, key: FlowKey, answer: Answer) {
        let mut asked = self.0.lock().unwrap();
        asked.count += 1;
        asked.questions.push_back((key, answer));
    }
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

fn errors() -> (Arc<Errors>, Arc<Mutex<Asked>>, Arc<Lease>) {
    let asked = Arc::new(Mutex::new(Asked { has_caught_up: true, ..Asked::default() }));
    let lease = Arc::new(Lease::none());
    lease.set(at(100_000), at(100_000));
    (Errors::new(Arc::clone(&lease), Some(Box::new(Script(Arc::clone(&asked))))), asked, lease)
}

fn answer(asked: &Mutex<Asked>, exists: Option<bool>) -> FlowKey {
    let (key, answer) = asked.lock().unwrap().questions.pop_front().unwrap();
    answer(exists);
    key
}

fn withheld(errors: &Errors, why: Withheld) -> u64 {
    errors.stats()[Withheld::NAMES[why as usize]]
}

#[test]
fn tables_from_a_file_know_which_flows_there_are() {
    let errors = Errors::new(Arc::new(Lease::unlimited()), None);
    assert!(errors.is_due(&key(1), RAN, b"x", at(0)));
}

#[test]
fn an_error_waits_until_the_owner_says_that_there_is_no_such_flow() {
    let (errors, asked, _) = errors();
    assert!(!errors.is_due(&key(1), RAN, b"1", at(0)));
    assert!(!errors.is_due(&key(1), RAN, b"2", at(10)), "one question a key");
    assert!(!errors.has_ready());
    assert_eq!(answer(&asked, Some(false)), key(1));
    assert!(errors.has_ready());
    assert_eq!(errors.take_ready(at(20)), [(RAN, b"1".to_vec()), (RAN, b"2".to_vec())]);
    assert!(errors.is_due(&key(1), RAN, b"3", at(999)), "known for a second from the question");
    assert!(!errors.is_due(&key(1), RAN, b"4", at(1_000)));
    assert_eq!(asked.lock().unwrap().count, 2);
}

#[test]
fn no_error_is_sent_for_a_flow_that_exists_or_that_nobody_knows_of() {
    let (errors, asked, _) = errors();
    assert!(!errors.is_due(&key(1), RAN, b"1", at(0)));
    answer(&asked, Some(true));
    assert!(!errors.is_due(&key(1), RAN, b"2", at(1)));
    assert_eq!(withheld(&errors, Withheld::FlowExists), 2);
    assert!(!errors.is_due(&key(2), RAN, b"1", at(0)));
    answer(&asked, None);
    assert_eq!(withheld(&errors, Withheld::NoAnswer), 1);
    assert!(!errors.is_due(&key(2), RAN, b"2", at(1)), "asked again");
    assert_eq!((asked.lock().unwrap().count, errors.take_ready(at(1))), (3, Vec::new()));
}

#[test]
fn a_node_without_a_lease_or_that_has_not_caught_up_asks_nobody_and_sends_nothing() {
    let (errors, asked, lease) = errors();
    assert!(!errors.is_due(&key(1), RAN, b"1", at(0)));
    answer(&asked, Some(false));
    lease.set(at(5), at(100));
    assert!(!errors.is_due(&key(1), RAN, b"2", at(5)));
    assert_eq!(errors.take_ready(at(5)), [], "nor for what waited");
    assert_eq!(withheld(&errors, Withheld::NoLease), 2);
    lease.set(at(1_000), at(1_000));
    asked.lock().unwrap().has_caught_up = false;
    assert!(!errors.is_due(&key(1), RAN, b"3", at(6)));
    assert_eq!((withheld(&errors, Withheld::NotCaughtUp), asked.lock().unwrap().count), (1, 1));
}

#[test]
fn forged_packets_fill_nothing() {
    let (errors, asked, _) = errors();
    for number in 0..10_000 {
        assert!(!errors.is_due(&key(number), RAN, &[0; 1_500], at(0)));
        let is_answered = number % 2 == 0 && !asked.lock().unwrap().questions.is_empty();
        if is_answered {
            answer(&asked, Some(false));
        }
        let state = errors.state();
        assert!(state.waiting + state.ready.len() <= FRAMES && state.open <= QUESTIONS);
        assert!(state.keys.len() <= KEYS);
    }
    assert!(asked.lock().unwrap().count <= QUESTIONS_PER_SECOND as usize);
    assert!(withheld(&errors, Withheld::TooMany) > 5_000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes, is answered and expires: each error rests on an answer that there is no such key, to a question
    /// of the last second unless it waited for it, and each packet is an error, waits, or is counted.
    #[test]
    fn every_error_rests_on_an_answer(
        steps in prop::collection::vec((0..8_u32, 0..5_u8, 0..600_u64), 1..200),
    ) {
        let (errors, asked, lease) = errors();
        let mut now = at(0);
        // By key, the newest question that was answered with no.
        let mut denied: BTreeMap<u32, Duration> = BTreeMap::new();
        let mut times: BTreeMap<u32, Duration> = BTreeMap::new();
        let (mut packets, mut sent) = (0_u64, 0_u64);
        for (number, what, wait) in steps {
            now += at(wait);
            match what {
                0 | 1 => {
                    packets += 1;
                    let before = asked.lock().unwrap().count;
                    if errors.is_due(&key(number), RAN, &number.to_le_bytes(), now) {
                        sent += 1;
                        prop_assert!(denied.get(&number).is_some_and(|asked| now < *asked + KNOWN));
                    }
                    if asked.lock().unwrap().count > before {
                        times.insert(number, now);
                    }
                }
                2 | 3 => {
                    if asked.lock().unwrap().questions.is_empty() {
                        continue;
                    }
                    let exists = [Some(false), Some(true), None][number as usize % 3];
                    let of = answer(&asked, exists);
                    let of = (0..8).find(|number| key(*number) == of).unwrap();
                    denied.remove(&of);
                    if exists == Some(false) {
                        denied.insert(of, times[&of]);
                    }
                }
                _ => lease.set(if number == 0 { at(0) } else { now + at(1_000) }, at(u64::MAX / 2_000_000)),
            }
            let ready = errors.take_ready(now);
            sent += ready.len() as u64;
            let known: BTreeSet<u32> = denied.keys().copied().collect();
            prop_assert!(ready.iter().all(|(_, frame)| known.contains(&u32::from(frame[0]))));
            let waiting = errors.state().waiting as u64;
            let withheld: u64 = errors.stats().values().sum();
            prop_assert_eq!(packets, sent + waiting + withheld);
        }
    }
}
