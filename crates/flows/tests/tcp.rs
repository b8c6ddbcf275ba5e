//! Scripted conversations: of each kind, with attacks.

mod attacks;
mod script;

use scalebricks_flows::Direction::{Forward, Reverse};
use scalebricks_flows::tcp::{Anomaly, Config, State, Vantage, Verdict};
use script::{Script, Step, ack, bare, data, fin, rst, syn, syn_ack};
use std::time::Duration;

const CLIENT: u32 = 1_000;
const SERVER: u32 = 9_000;

fn established(config: Config) -> Script {
    let mut script = Script::new(config);
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 1), State::SynReceived);
    script.accept(Forward, ack(CLIENT + 1, SERVER + 1), State::Established);
    script
}

fn in_path() -> Config {
    Config::default()
}

fn capture() -> Config {
    Config { vantage: Vantage::Capture, pick_up: true, ..Config::default() }
}

#[test]
fn a_conversation_from_handshake_to_time_wait() {
    let mut script = established(in_path());
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 100), State::Established);
    script.accept(Reverse, data(SERVER + 1, CLIENT + 101, 500), State::Established);
    script.accept(Forward, fin(CLIENT + 101, SERVER + 501), State::HalfClosed);
    script.accept(Reverse, ack(SERVER + 501, CLIENT + 102), State::HalfClosed);
    // The other half goes on.
    script.accept(Reverse, data(SERVER + 501, CLIENT + 102, 20), State::HalfClosed);
    script.accept(Forward, ack(CLIENT + 102, SERVER + 521), State::HalfClosed);
    script.accept(Reverse, fin(SERVER + 521, CLIENT + 102), State::Closing);
    script.accept(Forward, ack(CLIENT + 102, SERVER + 522), State::TimeWait);
    assert!(script.connection.anomalies().is_empty());
    // The last FIN again, as the ACK was lost behind us.
    script.accept(Reverse, fin(SERVER + 521, CLIENT + 102), State::TimeWait).has(Anomaly::Repeated);
}

#[test]
fn both_ends_close_at_once() {
    let mut script = established(in_path());
    script.accept(Forward, fin(CLIENT + 1, SERVER + 1), State::HalfClosed);
    script.accept(Reverse, fin(SERVER + 1, CLIENT + 1), State::Closing);
    script.accept(Forward, ack(CLIENT + 2, SERVER + 2), State::Closing);
    script.accept(Reverse, ack(SERVER + 2, CLIENT + 2), State::TimeWait);
}

#[test]
fn both_ends_open_at_once() {
    let mut script = Script::new(in_path());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.accept(Reverse, syn(SERVER), State::SimultaneousOpen).has(Anomaly::SimultaneousOpen);
    script.accept(Forward, syn_ack(CLIENT, SERVER + 1), State::SynReceived);
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 1), State::Established);
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 10), State::Established);
    script.accept(Reverse, ack(SERVER + 1, CLIENT + 11), State::Established);
}

#[test]
fn sequence_numbers_wrap() {
    let mut script = Script::new(in_path());
    let (client, server) = (u32::MAX - 5, u32::MAX);
    script.accept(Forward, syn(client), State::SynSent);
    script.accept(Reverse, syn_ack(server, client.wrapping_add(1)), State::SynReceived);
    script.accept(Forward, ack(client.wrapping_add(1), 0), State::Established);
    let mut at = client.wrapping_add(1);
    for _ in 0..100 {
        script.accept(Forward, data(at, 0, 300), State::Established);
        at = at.wrapping_add(300);
        script.accept(Reverse, ack(0, at), State::Established);
    }
    assert!(script.connection.anomalies().is_empty());
    script.refuse(Forward, data(client.wrapping_sub(70_000), 0, 300), Anomaly::BelowWindow);
    script.accept(Reverse, fin(0, at), State::HalfClosed);
    script.accept(Forward, fin(at, 1), State::Closing);
    script.accept(Reverse, ack(1, at.wrapping_add(1)), State::TimeWait);
}

#[test]
fn a_connection_is_refused_by_its_peer() {
    let mut script = Script::new(in_path());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.refuse(Reverse, rst(0, Some(CLIENT)), Anomaly::ResetNotExact);
    script.refuse(Reverse, rst(0, Some(CLIENT + 2)), Anomaly::ResetNotExact);
    script.refuse(Reverse, rst(0, None), Anomaly::ResetNotExact);
    script.accept(Reverse, rst(0, Some(CLIENT + 1)), State::Reset);
    assert_eq!(script.connection.reset_by(), Some(Reverse));
    // The client tries again.
    script.replace(Forward, syn(CLIENT), State::SynSent);
}

#[test]
fn resets_end_a_connection_at_the_exact_number() {
    for (from, segment) in [
        (Forward, rst(CLIENT + 1, None)),
        (Forward, rst(CLIENT + 101, Some(SERVER + 1))),
        (Reverse, rst(SERVER + 1, None)),
    ] {
        let mut script = established(in_path());
        script.accept(Forward, data(CLIENT + 1, SERVER + 1, 100), State::Established);
        script.accept(from, segment, State::Reset);
        assert_eq!(script.connection.reset_by(), Some(from));
        script.refuse(Forward, data(CLIENT + 101, SERVER + 1, 5), Anomaly::AfterReset);
        script.replace(Forward, syn(77), State::SynSent);
    }
}

#[test]
fn syns_are_repeated_and_replaced() {
    let mut script = Script::new(in_path());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.accept(Forward, syn(CLIENT), State::SynSent).has(Anomaly::Repeated);
    script.replace(Forward, syn(CLIENT + 5_000), State::SynSent);
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 5_001), State::SynReceived);
    script.accept(Forward, syn(CLIENT + 5_000), State::SynReceived).has(Anomaly::Repeated);
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 5_001), State::SynReceived).has(Anomaly::Repeated);
    script.accept(Forward, ack(CLIENT + 5_001, SERVER + 1), State::Established);
    // An old duplicate of the SYN changes nothing.
    script.accept(Forward, syn(CLIENT + 5_000), State::Established).has(Anomaly::Repeated);
}

/// RFC 9293 figure 9: the server has crashed, and the client opens a connection that the server does not know.
#[test]
fn half_open_connections_recover() {
    let mut script = established(in_path());
    // The client has crashed and calls again; the server answers as in the old connection.
    script.refuse(Forward, syn(400), Anomaly::SynInConnection);
    script.accept(Reverse, ack(SERVER + 1, CLIENT + 1), State::Established);
    script.accept(Forward, rst(CLIENT + 1, None), State::Reset);
    script.replace(Forward, syn(400), State::SynSent);

    // The server has crashed as well: it confirms the new SYN.
    let mut script = established(in_path());
    script.refuse(Forward, syn(400), Anomaly::SynInConnection);
    script.refuse(Reverse, syn_ack(50_000, 402), Anomaly::SynInConnection);
    script.replace(Reverse, syn_ack(50_000, 401), State::SynReceived);
    script.accept(Forward, ack(401, 50_001), State::Established);

    // A SYN is answered from an older connection that was not seen.
    let mut script = Script::new(in_path());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.refuse(Reverse, ack(300, 100), Anomaly::HalfOpen);
    script.refuse(Reverse, syn_ack(300, 100), Anomaly::HalfOpen);
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 1), State::SynReceived);
}

#[test]
fn time_wait_gives_way_to_later_connections_only() {
    let close = || {
        let mut script = established(in_path());
        script.accept(Forward, fin(CLIENT + 1, SERVER + 1), State::HalfClosed);
        script.accept(Reverse, fin(SERVER + 1, CLIENT + 2), State::Closing);
        script.accept(Forward, ack(CLIENT + 2, SERVER + 2), State::TimeWait);
        script
    };
    close().refuse(Forward, syn(CLIENT - 50), Anomaly::SynInConnection);
    close().replace(Forward, syn(CLIENT + 50), State::SynSent);
    close().replace(Reverse, syn(SERVER + 50), State::SynSent);
    // A reset does not end it (RFC 1337).
    let mut script = close();
    script.accept(Forward, rst(CLIENT + 2, None), State::TimeWait);
    script.refuse(Forward, syn(CLIENT - 50), Anomaly::SynInConnection);
}

#[test]
fn probes_are_named() {
    let mut script = established(in_path());
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 10), State::Established);
    script.accept(Reverse, ack(SERVER + 1, CLIENT + 11), State::Established);
    for keep_alive in [ack(CLIENT + 10, SERVER + 1), data(CLIENT + 10, SERVER + 1, 1)] {
        script.accept(Forward, keep_alive, State::Established).has(Anomaly::KeepAlive);
        script.accept(Reverse, ack(SERVER + 1, CLIENT + 11), State::Established).has_nothing();
    }
    let closed = Step { window: 0, ..ack(SERVER + 1, CLIENT + 11) };
    script.accept(Reverse, closed, State::Established).has(Anomaly::ZeroWindow);
    let probe = data(CLIENT + 11, SERVER + 1, 1);
    script.accept(Forward, probe, State::Established).has(Anomaly::ZeroWindowProbe);
    script.accept(Reverse, closed, State::Established);
    script.accept(Forward, probe, State::Established).has(Anomaly::Repeated);
}

#[test]
fn windows_are_scaled_if_both_ends_offer_it() {
    let shifted = |step: Step, shift| Step { shift: Some(shift), ..step };
    for (offered, answered, allowed) in
        [(Some(7), Some(2), 500 << 2), (Some(7), None, 500), (None, Some(2), 500)]
    {
        let mut script = Script::new(in_path());
        let (mut first, mut second) = (syn(CLIENT), syn_ack(SERVER, CLIENT + 1));
        if let Some(shift) = offered {
            first = shifted(first, shift);
        }
        if let Some(shift) = answered {
            second = shifted(second, shift);
        }
        let narrow = |step: Step| Step { window: 500, ..step };
        script.accept(Forward, narrow(first), State::SynSent);
        // Windows of SYNs are not scaled.
        script.accept(Reverse, narrow(second), State::SynReceived);
        script.accept(Forward, narrow(ack(CLIENT + 1, SERVER + 1)), State::Established);
        script.accept(Reverse, narrow(ack(SERVER + 1, CLIENT + 1)), State::Established);
        let edge = CLIENT + 1 + allowed;
        script.refuse(Forward, data(edge + 1, SERVER + 1, 10), Anomaly::BeyondWindow);
        script.accept(Forward, ack(edge, SERVER + 1), State::Established);
    }
}

#[test]
fn old_timestamps_are_refused() {
    let timed = |step: Step, value| Step { timestamp: Some(value), ..step };
    let mut script = Script::new(in_path());
    script.accept(Forward, timed(syn(CLIENT), u32::MAX - 1), State::SynSent);
    script.accept(Reverse, timed(syn_ack(SERVER, CLIENT + 1), 50), State::SynReceived);
    script.accept(Forward, timed(ack(CLIENT + 1, SERVER + 1), u32::MAX), State::Established);
    script.accept(Forward, timed(data(CLIENT + 1, SERVER + 1, 10), 3), State::Established); // wrapped
    script.refuse(Forward, timed(data(CLIENT + 11, SERVER + 1, 10), u32::MAX), Anomaly::OldTimestamp);
    script.refuse(Forward, data(CLIENT + 11, SERVER + 1, 10), Anomaly::NoTimestamp);
    // Resets need none (RFC 7323 §5.2).
    let mut reset = script.clone();
    reset.accept(Forward, rst(CLIENT + 11, None), State::Reset);
    // After 24 days the clock may have wrapped.
    script.now = Duration::from_secs(25 * 24 * 3_600);
    script.accept(Forward, timed(data(CLIENT + 11, SERVER + 1, 10), u32::MAX), State::Established);
}

#[test]
fn connections_are_picked_up_midway_on_request_only() {
    let midway = data(CLIENT, SERVER, 100);
    let mut script = Script::new(in_path());
    script.refuse(Forward, midway, Anomaly::NoConnection);
    assert_eq!(script.connection.state(), State::New);

    let mut script = Script::new(Config { pick_up: true, ..in_path() });
    script.refuse(Forward, rst(CLIENT, None), Anomaly::NoConnection);
    script.accept(Forward, midway, State::Established).has(Anomaly::PickedUp);
    script.accept(Reverse, data(SERVER, CLIENT + 100, 1_000), State::Established).has_nothing();
    script.refuse(Reverse, rst(SERVER + 1_007, None), Anomaly::ResetNotExact);
    script.accept(Reverse, fin(SERVER + 1_000, CLIENT + 100), State::HalfClosed);
    script.accept(Forward, fin(CLIENT + 100, SERVER + 1_001), State::Closing);
    script.accept(Reverse, ack(SERVER + 1_001, CLIENT + 101), State::TimeWait);
    assert!(script.connection.is_picked_up());

    // From the SYN-ACK on.
    let mut script = Script::new(capture());
    script.accept(Forward, syn_ack(SERVER, CLIENT + 1), State::SynReceived);
    script.accept(Reverse, ack(CLIENT + 1, SERVER + 1), State::Established);
}

/// What the endpoints had sent elsewhere is acknowledged after the pick-up: the first segment seen was a probe of a closed
/// window, or repeats what the peer has, except for its first part.
#[test]
fn a_connection_picked_up_midway_goes_on_from_a_probe_or_a_retransmission() {
    let picking = Config { pick_up: true, ..in_path() };
    let probe = ack(SERVER - 1, CLIENT);
    for (first, acknowledged) in [(probe, SERVER), (data(SERVER - 5_000, CLIENT, 1_000), SERVER)] {
        let mut script = Script::new(picking);
        script.accept(Reverse, first, State::Established).has(Anomaly::PickedUp);
        script.accept(Forward, ack(CLIENT, acknowledged), State::Established).has(Anomaly::AckOfUnseen);
        script.accept(Reverse, data(SERVER, CLIENT, 1_000), State::Established).has_nothing();
        script.accept(Forward, ack(CLIENT, SERVER + 1_000), State::Established).has_nothing();
        script.refuse(Forward, ack(CLIENT, SERVER + 1_000 + (1 << 30)), Anomaly::AckOfUnsent);
    }
}

#[test]
fn captures_may_lack_packets() {
    let mut script = Script::new(capture());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.accept(Forward, ack(CLIENT + 1, SERVER + 1), State::Established).has(Anomaly::AckOfUnseen);
    script.accept(Reverse, data(SERVER + 1, CLIENT + 1, 100), State::Established);
    // The SYN-ACK was captured late, by another queue.
    script.accept(Reverse, syn_ack(SERVER, CLIENT + 1), State::Established).has(Anomaly::Repeated);
    assert!(script.connection.has_syn(Reverse));
    // Data that was not captured is acknowledged.
    script.accept(Forward, ack(CLIENT + 1, SERVER + 301), State::Established).has(Anomaly::AckOfUnseen);
    script.accept(Reverse, data(SERVER + 301, CLIENT + 1, 100), State::Established).has_nothing();
    script.refuse(Forward, ack(CLIENT + 1, SERVER + 301 + (1 << 30)), Anomaly::AckOfUnsent);

    // In path, that is an attack.
    let mut script = established(in_path());
    script.refuse(Forward, ack(CLIENT + 1, SERVER + 2), Anomaly::AckOfUnsent);
    let mut script = Script::new(in_path());
    script.accept(Forward, syn(CLIENT), State::SynSent);
    script.refuse(Forward, ack(CLIENT + 1, SERVER + 1), Anomaly::BeforeHandshake);
}

#[test]
fn impossible_flags_are_refused_in_every_state() {
    let (f, s, r, a) = (1, 2, 4, 16);
    let impossible = [0, f, s | f, s | r, f | r, s | f | a, s | r | a, f | r | a, 8, 32 | 8 | f];
    let scripts = [Script::new(in_path()), established(in_path())];
    for flags in impossible {
        for mut script in scripts.clone() {
            let mut step = bare(CLIENT + 1, SERVER + 1);
            step.flags = flags;
            script.refuse(Forward, step, Anomaly::BadFlags);
        }
    }
}

#[test]
fn data_after_fin_is_refused() {
    let mut script = established(in_path());
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 10), State::Established);
    script.accept(Forward, fin(CLIENT + 11, SERVER + 1), State::HalfClosed);
    script.refuse(Forward, data(CLIENT + 12, SERVER + 1, 10), Anomaly::AfterFin);
    script.refuse(Forward, fin(CLIENT + 20, SERVER + 1), Anomaly::AfterFin);
    script.refuse(Forward, fin(CLIENT + 5, SERVER + 1), Anomaly::AfterFin);
    script.accept(Forward, data(CLIENT + 1, SERVER + 1, 10), State::HalfClosed).has(Anomaly::Repeated);
    let verdict = script.step(Forward, data(CLIENT + 1, SERVER + 1, 11)).verdict;
    assert_eq!(verdict, Verdict::Accepted, "up to the FIN's number");
}
