//! Detects replayed datagrams.
//!
//! A datagram can be captured and sent again, at once or after years. A heartbeat must therefore show that its sender heard this
//! node recently. Every datagram to a peer *gives* it an unpredictable ticket, and *bears* the last one received from it. A ticket
//! proves once, and is then replaced; one older than [`LEASE`] proves nothing. A session (one start of the peer) that has proven
//! itself is accepted for [`LEASE`] from the creation of that ticket, as long as its counter rises. Nothing is stored over a
//! restart of either side, and no wall clock is used.

use super::datagram::{Head, NO_TICKET, SessionId, Ticket};
use super::keys;
use ring::hmac::Key;
use scalebricks_types::NodeId;
use std::time::{Duration, Instant};

/// How long a proof holds: a dead node can be made to look alive for at most this time by delaying its datagrams.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// Time between two answers to datagrams that proved nothing.
const GREETING: Duration = Duration::from_millis(10);

/// The judgement of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its sender is alive.
    Fresh {
        /// The peer or this node has just started.
        is_new: bool,
    },
    /// It is a replay, or was reordered.
    Stale,
    /// It may be old.
    Unproven,
}

/// The state of the link to a peer.
pub(super) struct PeerProof {
    peer: NodeId,
    /// The ticket given to the peer, its time, and the number of tickets so far.
    ticket: Ticket,
    made: Instant,
    serial: u64,
    /// The ticket borne for the peer.
    borne: Ticket,
    /// The peer's session that has proven itself, and its highest counter.
    session: Option<(SessionId, u64)>,
    /// When the ticket was made that has proven it.
    proven: Instant,
    /// Counter of this node's datagrams.
    counter: u64,
    greeted: Option<Instant>,
}

impl PeerProof {
    /// The state for an unknown peer. `secret` is drawn at each start, and creates the tickets.
    pub(super) fn new(peer: NodeId, secret: &Key, now: Instant) -> Self {
        let mut link = Self {
            peer,
            ticket: NO_TICKET,
            made: now,
            serial: 0,
            borne: NO_TICKET,
            session: None,
            proven: now,
            counter: 0,
            greeted: None,
        };
        link.renew(secret, now);
        link
    }

    fn renew(&mut self, secret: &Key, now: Instant) {
        self.serial += 1;
        self.made = now;
        let mac = keys::mac(secret, &[&[self.peer.get()], &self.serial.to_le_bytes()]);
        if let Some(ticket) = mac.first_chunk() {
            self.ticket = *ticket;
        }
    }

    /// The counter, and the tickets to give and to bear, of the next datagram to the peer.
    pub(super) fn next(&mut self, secret: &Key, now: Instant) -> (u64, Ticket, Ticket) {
        if now >= self.made + LEASE {
            self.renew(secret, now);
        }
        self.counter += 1;
        (self.counter, self.ticket, self.borne)
    }

    /// Judges a datagram of the peer.
    pub(super) fn judge(&mut self, secret: &Key, head: &Head, now: Instant) -> Verdict {
        let known = self.session.filter(|(session, _)| *session == head.session);
        if known.is_some_and(|(_, counter)| head.counter <= counter) {
            return Verdict::Stale;
        }
        if head.bears == self.ticket && now < self.made + LEASE {
            self.proven = self.made;
            self.renew(secret, now);
        } else if known.is_none() || now >= self.proven + LEASE {
            return Verdict::Unproven;
        }
        self.session = Some((head.session, head.counter));
        self.borne = head.gives;
        Verdict::Fresh { is_new: known.is_none() }
    }

    /// The earliest time at which the newest accepted datagram can have been sent: when the ticket that proved its session was
    /// created. At most [`LEASE`] before it was accepted.
    pub(super) const fn sent_after(&self) -> Instant {
        self.proven
    }

    /// Whether to answer a datagram that proved nothing: not more often than every 10 ms.
    pub(super) fn may_greet(&mut self, now: Instant) -> bool {
        let may = self.greeted.is_none_or(|last| now >= last + GREETING);
        if may {
            self.greeted = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::datagram::Kind;
    use proptest::prelude::*;
    use ring::hmac::HMAC_SHA256;

    /// One end of a link.
    struct End {
        link: PeerProof,
        secret: Key,
        session: SessionId,
    }

    impl End {
        fn new(peer: u8, start: u8, now: Instant) -> Self {
            let secret = Key::new(HMAC_SHA256, &[start; 32]);
            let link = PeerProof::new(NodeId::new(peer), &secret, now);
            Self { link, secret, session: [start; 16] }
        }

        fn say(&mut self, now: Instant) -> Head {
            let (counter, gives, bears) = self.link.next(&self.secret, now);
            let (sender, receiver) = (NodeId::new(0), NodeId::new(0));
            Head { kind: Kind::Beat, sender, receiver, session: self.session, counter, gives, bears }
        }

        /// The answer to a datagram that proved nothing.
        fn greet(&mut self, said: &Head, now: Instant) -> Head {
            Head { bears: said.gives, ..self.say(now) }
        }

        fn hear(&mut self, head: &Head, now: Instant) -> Verdict {
            self.link.judge(&self.secret, head, now)
        }
    }

    const OLD: Verdict = Verdict::Fresh { is_new: false };
    const NEW: Verdict = Verdict::Fresh { is_new: true };
    const BEAT: Duration = Duration::from_millis(200);

    /// Two ends that know each other.
    fn pair(now: Instant) -> (End, End) {
        let (mut a, mut b) = (End::new(1, 1, now), End::new(0, 2, now));
        meet(&mut a, &mut b, now);
        (a, b)
    }

    fn meet(a: &mut End, b: &mut End, now: Instant) {
        let first = a.say(now);
        assert_eq!(b.hear(&first, now), Verdict::Unproven);
        let answer = b.greet(&first, now);
        assert_eq!(a.hear(&answer, now), NEW);
        assert_eq!(b.hear(&a.say(now), now), NEW);
    }

    #[test]
    fn beats_are_fresh_for_ever_and_each_but_once() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let mut all = Vec::new();
        for turn in 1..100 {
            let now = start + BEAT * turn;
            let said = a.say(now);
            assert_eq!(b.hear(&said, now), OLD);
            assert_eq!(b.hear(&said, now), Verdict::Stale);
            all.push(said);
            let back = b.say(now);
            assert_eq!(a.hear(&back, now), OLD);
        }
        let late = start + BEAT * 200;
        assert!(all.iter().all(|said| b.hear(said, late) == Verdict::Stale));
    }

    #[test]
    fn a_delayed_datagram_proves_nothing_after_the_lease() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let back = b.say(start);
        a.hear(&back, start);
        let held: Vec<Head> = (0..10).map(|_| a.say(start)).collect();
        // A is dead now. The first datagram is still in time, and later ones are accepted until the lease ends.
        assert_eq!(b.hear(&held[0], start + BEAT), OLD);
        assert_eq!(b.hear(&held[1], start + BEAT * 9), OLD);
        for said in &held[2..] {
            assert_eq!(b.hear(said, start + LEASE + BEAT), Verdict::Unproven);
        }
    }

    #[test]
    fn a_restarted_sender_is_believed_at_once_and_its_past_never() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let back = b.say(start);
        a.hear(&back, start);
        let past: Vec<Head> = (0..5).map(|_| a.say(start)).collect();
        let mut again = End::new(1, 3, start);
        meet(&mut again, &mut b, start);
        for said in &past {
            assert_eq!(b.hear(said, start), Verdict::Unproven);
        }
        let now = start + BEAT;
        assert_eq!(b.hear(&again.say(now), now), OLD, "the new session was not pushed out");
    }

    #[test]
    fn a_restarted_receiver_does_not_fall_for_the_past() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let back = b.say(start);
        a.hear(&back, start);
        let past: Vec<Head> = (0..5).map(|_| a.say(start)).collect();
        let mut again = End::new(0, 4, start);
        for said in &past {
            assert_eq!(again.hear(said, start), Verdict::Unproven);
        }
        let said = a.say(start);
        assert_eq!(again.hear(&said, start), Verdict::Unproven);
        let answer = again.greet(&said, start);
        assert_eq!(a.hear(&answer, start), NEW);
        assert_eq!(again.hear(&a.say(start), start), NEW);
    }

    #[test]
    fn a_link_that_works_one_way_only_proves_nothing_any_more() {
        let start = Instant::now();
        let (mut a, mut b) = pair(start);
        let heard = |turn| start + BEAT * turn;
        let verdicts: Vec<Verdict> = (1..20).map(|turn| b.hear(&a.say(heard(turn)), heard(turn))).collect();
        assert_eq!(verdicts[0], OLD);
        assert_eq!(verdicts[18], Verdict::Unproven);
        let now = heard(30);
        let said = a.say(now);
        let answer = b.greet(&said, now);
        a.hear(&answer, now);
        assert_eq!(b.hear(&a.greet(&answer, now), now), OLD, "it works again");
    }

    #[test]
    fn answers_are_rare() {
        let now = Instant::now();
        let (mut a, _) = pair(now);
        assert!(a.link.may_greet(now));
        assert!(!a.link.may_greet(now));
        assert!(a.link.may_greet(now + GREETING));
    }

    /// Steps of two ends, with an attacker between them who keeps all datagrams of A.
    #[derive(Debug, Clone)]
    enum Step {
        Say,
        /// B sends something, which A receives.
        Back,
        /// One of A's datagrams reaches B, and B's answer reaches A or not.
        Deliver(prop::sample::Index, bool),
        Wait(u64),
        RestartA,
        RestartB,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let deliver = (any::<prop::sample::Index>(), any::<bool>());
        let step = prop_oneof![
            4 => Just(Step::Say),
            3 => Just(Step::Back),
            8 => deliver.prop_map(|(which, answers)| Step::Deliver(which, answers)),
            3 => (0..900_u64).prop_map(Step::Wait),
            1 => Just(Step::RestartA),
            1 => Just(Step::RestartB),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn an_accepted_datagram_was_sent_within_the_lease_and_is_accepted_once(steps in steps()) {
            let mut now = Instant::now();
            let (mut a, mut b) = pair(now);
            let mut starts = 10;
            // A's datagrams, when they were sent, and whether they were accepted.
            let mut said: Vec<(Head, Instant, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Say => said.push((a.say(now), now, false)),
                    Step::Back => _ = a.hear(&b.say(now), now),
                    Step::Deliver(_, _) if said.is_empty() => {}
                    Step::Deliver(which, answers) => {
                        let at = which.index(said.len());
                        let (head, then, has_counted) = &mut said[at];
                        let head = *head;
                        if let Verdict::Fresh { .. } = b.hear(&head, now) {
                            prop_assert!(now - *then < LEASE);
                            prop_assert!(!std::mem::replace(has_counted, true));
                        } else if answers {
                            let answer = b.greet(&head, now);
                            if a.hear(&answer, now) == Verdict::Unproven {
                                said.push((a.greet(&answer, now), now, false));
                            }
                        }
                    }
                    Step::Wait(ms) => now += Duration::from_millis(ms),
                    Step::RestartA => {
                        starts += 1;
                        a = End::new(1, starts, now);
                    }
                    Step::RestartB => {
                        starts += 1;
                        b = End::new(0, starts, now);
                    }
                }
            }
            // Whatever has happened: a running peer is accepted after one and a half round trips.
            let first = a.say(now);
            if b.hear(&first, now) == Verdict::Unproven {
                let answer = b.greet(&first, now);
                let reply = match a.hear(&answer, now) {
                    Verdict::Unproven => a.greet(&answer, now),
                    _ => a.say(now),
                };
                let is_fresh = matches!(b.hear(&reply, now), Verdict::Fresh { .. });
                prop_assert!(is_fresh);
            }
        }
    }
}
