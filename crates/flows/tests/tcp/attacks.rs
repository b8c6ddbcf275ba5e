//! What an attacker who cannot see a connection changes by guessing: nothing.

use super::script::{Script, Step, ack, data, rst, syn, syn_ack};
use super::{CLIENT, SERVER, capture, established, in_path};
use proptest::prelude::*;
use scalebricks_flows::Direction::{self, Forward, Reverse};
use scalebricks_flows::tcp::{Anomaly, State, Verdict};

/// A conversation in which 100 octets of the client wait for their ACK.
fn talking() -> Script {
    let mut script = established(in_path());
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 100), State::Established);
    script
}

/// RFC 5961 §3.2: of 2^32 sequence numbers, two are exact here; the others in the window are challenged.
#[test]
fn blind_resets_are_not_believed() {
    for sequence in (CLIENT..CLIENT + 20_000).filter(|number| ![CLIENT + 1, CLIENT + 101].contains(number)) {
        talking().refuse(Forward, rst(sequence, None), Anomaly::ResetNotExact);
    }
    assert!(Anomaly::ResetNotExact.is_challenge());
    let mut script = talking();
    script.accept(Forward, rst(CLIENT + 101, None), State::Reset);
}

/// RFC 5961 §4.2: a SYN is not believed, at any number, from any side.
#[test]
fn blind_syns_are_not_believed() {
    for (from, step) in [
        (Forward, syn(CLIENT + 101)),
        (Forward, syn(0)),
        (Reverse, syn(SERVER + 1)),
        (Forward, syn_ack(CLIENT + 101, SERVER + 1)),
        (Reverse, syn_ack(5, CLIENT + 1)),
    ] {
        let mut script = talking();
        script.refuse(from, step, Anomaly::SynInConnection);
        script.accept(Reverse, ack(SERVER + 1, CLIENT + 101), State::Established);
    }
}

/// RFC 5961 §5.2.
#[test]
fn blind_data_is_not_believed() {
    let mut script = talking();
    script.refuse(Forward, data(CLIENT + 101, SERVER + 2, 50), Anomaly::AckOfUnsent);
    script.refuse(Forward, data(CLIENT + 101, SERVER.wrapping_sub(70_000), 50), Anomaly::AckTooOld);
    script.refuse(Forward, data(CLIENT + 1 + 20_001, SERVER + 1, 50), Anomaly::BeyondWindow);
    script.refuse(Forward, data(CLIENT.wrapping_sub(30_000), SERVER + 1, 50), Anomaly::BelowWindow);
    script.refuse(Forward, data(CLIENT + (1 << 31), SERVER + 1, 50), Anomaly::BeyondWindow);
}

/// Every field of a segment.
fn any_step() -> impl Strategy<Value = (Direction, Step)> {
    let number = |base: u32| prop_oneof![any::<u32>(), (0_u32..300).prop_map(move |add| base + add)];
    let (sequence, ack) = (number(CLIENT - 50), number(SERVER - 50));
    let flags = prop_oneof![any::<u8>(), prop::sample::select(vec![2_u8, 16, 17, 18, 20, 4, 24])];
    let more = (0_u32..1_500, any::<u16>(), prop::option::of(0_u8..20), prop::option::of(any::<u32>()));
    (any::<bool>(), sequence, ack, flags, more).prop_map(|(forward, sequence, ack, flags, more)| {
        let (len, window, shift, timestamp) = more;
        let (from, sequence, ack) = if forward { (Forward, sequence, ack) } else { (Reverse, ack, sequence) };
        (from, Step { sequence, ack, flags, len, window, shift, timestamp })
    })
}

proptest! {
    /// Anything may come at any time. A refused segment leaves the state, a state never goes back, and only SYNs replace.
    #[test]
    fn any_segments_keep_the_rules(is_capture: bool, steps in proptest::collection::vec(any_step(), 0..60)) {
        let mut script = Script::new(if is_capture { capture() } else { in_path() });
        for (from, step) in steps {
            let before = script.connection.state();
            let outcome = script.step(from, step);
            let after = script.connection.state();
            match outcome.verdict {
                Verdict::Refused(anomaly) => {
                    prop_assert_eq!(before, after);
                    prop_assert!(outcome.anomalies.contains(anomaly));
                }
                Verdict::Accepted => {
                    prop_assert!(after as u8 >= before as u8, "{:?} after {:?}", after, before);
                    prop_assert_ne!(before, State::Reset);
                }
                Verdict::Replaced => {
                    prop_assert_eq!(step.flags & 2, 2);
                    prop_assert_eq!(before, after);
                    let (connection, from) = script.connection.successor(from, &step.segment());
                    script.connection = connection;
                    let outcome = script.step(from, step);
                    prop_assert_eq!(outcome.verdict, Verdict::Accepted);
                }
            }
        }
    }

    /// Blind segments into a conversation: sequence numbers out of the window, or acknowledgments of nothing. What the ends
    /// do afterwards is what they do without them.
    #[test]
    fn blind_segments_leave_no_trace(
        attacks in proptest::collection::vec((any::<bool>(), 40_000_u32..4_000_000_000, 100_000_u32..4_000_000_000, any::<u8>()), 0..40),
    ) {
        let mut script = talking();
        let calm = script.clone();
        for (forward, ahead, ack_ahead, flags) in attacks {
            let (from, base, other) = if forward { (Forward, CLIENT, SERVER) } else { (Reverse, SERVER, CLIENT) };
            let ack = other.wrapping_add(ack_ahead);
            let step = Step { sequence: base.wrapping_add(ahead), ack, flags, len: 5, ..data(0, 0, 0) };
            let outcome = script.step(from, step);
            prop_assert!(matches!(outcome.verdict, Verdict::Refused(_)), "{:?}: {:?}", step, outcome);
        }
        for mut script in [script, calm] {
            script.accept(Reverse, data(SERVER + 1, CLIENT + 101, 40), State::Established).has_nothing();
            script.accept(Forward, data(CLIENT + 101, SERVER + 41, 40), State::Established).has_nothing();
            script.accept(Forward, rst(CLIENT + 141, None), State::Reset);
        }
    }
}
