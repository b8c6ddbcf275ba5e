//! One process's way to the owner of one partition.

use super::{Answer, Refusal, Reply};
use crate::engine::WriterId;
use crate::partition::Verdict;
use crate::record::{Call, CallId, Change, WINDOW};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Changes of one call, at most.
pub const CALL_CHANGES: usize = 4_096;

/// Most changes of one message: within the limit of a batch, for keys of any length.
pub const MESSAGE_CHANGES: usize = 8_192;

/// A call without an answer is sent again after this.
pub const RETRY: Duration = Duration::from_secs(1);

/// Time before the next attempt if the node answered that it is not the owner.
const PAUSE: Duration = Duration::from_millis(50);

/// A call that an owner delays goes again after this: see [`Refusal::Delayed`].
pub const DELAY: Duration = Duration::from_millis(500);

/// After this time the caller gets [`Failure::Unknown`].
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Messages without answers: calls submitted meanwhile share the next message.
const MESSAGES: usize = 2;

/// Why a call has no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It was not executed, and will not be.
    #[error(transparent)]
    Refused(Refusal),
    /// It may have been executed, or be later.
    #[error(
        "it is not known whether the changes were made: no owner of the partition answered in time; check, or send them again"
    )]
    Unknown,
    /// It was not executed: the partition has no owner.
    #[error("the partition has no owner; try again soon")]
    NoOwner,
}

/// A call that was not sent yet.
#[derive(Debug)]
struct Waiting<T> {
    changes: Vec<Change>,
    token: T,
    until: Duration,
}

/// A call that was sent and has no answer.
#[derive(Debug)]
struct Sent<T> {
    by: WriterId,
    waiting: Waiting<T>,
    /// The message that it first went with.
    message: u64,
    to: NodeId,
    at: Duration,
    /// How often the current target was sent the call since it last answered that it is not the owner.
    tries: u32,
    /// The call was sent before, and an earlier target may have logged it.
    is_open: bool,
}

/// Calls of one process to one partition. `T` identifies the waiting caller. A state machine without I/O: see the
/// [module](super). Messages may be lost or reordered, but are not duplicated.
#[derive(Debug)]
pub struct CallClient<T> {
    /// The number of the last call sent.
    last: u64,
    waiting: VecDeque<Waiting<T>>,
    /// Calls that were not logged and go again at these times, ascending. They hold up no others.
    delayed: VecDeque<(Duration, Waiting<T>)>,
    sent: BTreeMap<u64, Sent<T>>,
    /// Calls without an answer, by the message that they went with.
    messages: BTreeMap<u64, usize>,
    message: u64,
    done: Vec<(T, Result<Verdict, Failure>)>,
    retired: Option<WriterId>,
}

impl<T> Default for CallClient<T> {
    fn default() -> Self {
        Self {
            last: 0,
            waiting: VecDeque::new(),
            delayed: VecDeque::new(),
            sent: BTreeMap::new(),
            messages: BTreeMap::new(),
            message: 0,
            done: Vec::new(),
            retired: None,
        }
    }
}

impl<T> CallClient<T> {
    /// Takes changes that go together, [`CALL_CHANGES`] at most.
    pub fn submit(&mut self, changes: Vec<Change>, token: T, now: Duration) {
        self.waiting.push_back(Waiting { changes, token, until: now + DEADLINE });
    }

    /// Calls that have no outcome yet.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.delayed.len() + self.sent.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls that were not sent yet.
    pub fn unsent(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the outcomes of finished calls.
    pub fn take_done(&mut self) -> Vec<(T, Result<Verdict, Failure>)> {
        std::mem::take(&mut self.done)
    }

    /// The number of this process that the partition has forgotten: it is to draw another.
    pub const fn retired(&self) -> Option<WriterId> {
        self.retired
    }

    /// Returns the messages to send now, under the process's current number. Call it after every event, and every few ten
    /// milliseconds while calls have no outcome.
    pub fn poll(&mut self, owner: Option<NodeId>, by: WriterId, now: Duration) -> Vec<(NodeId, Vec<Call>)> {
        self.expire(now);
        // In front of younger ones, in their order.
        let due = self.delayed.iter().take_while(|(due, _)| *due <= now).count();
        for (_, waiting) in self.delayed.drain(..due).rev() {
            self.waiting.push_front(waiting);
        }
        let Some(owner) = owner else { return Vec::new() };
        let mut out = Vec::new();
        let mut again = Vec::new();
        for (&number, sent) in &mut self.sent {
            let patience = if sent.tries == 0 { PAUSE } else { RETRY };
            if sent.to != owner || now >= sent.at + patience {
                // Also if the same node is asked again: it may be another process by now, and the one before may have logged it.
                sent.is_open |= sent.tries > 0;
                if sent.to != owner {
                    sent.tries = 0;
                }
                (sent.to, sent.at) = (owner, now);
                sent.tries += 1;
                again.push(number);
            }
        }
        self.pack(owner, &again, &mut out);
        if self.retired != Some(by) {
            while self.messages.len() < MESSAGES && self.next(owner, by, now, &mut out) {}
        }
        out
    }

    /// Sends waiting calls, as many as fit into one message. Returns whether there were any.
    fn next(
        &mut self,
        owner: NodeId,
        by: WriterId,
        now: Duration,
        out: &mut Vec<(NodeId, Vec<Call>)>,
    ) -> bool {
        let oldest = self.sent.first_key_value().map_or(self.last + 1, |(number, _)| *number);
        let (mut changes, mut numbers) = (0, Vec::new());
        while self.last + 1 - oldest < WINDOW
            && let Some(next) = self.waiting.front()
            && (numbers.is_empty() || changes + next.changes.len() <= MESSAGE_CHANGES)
        {
            changes += next.changes.len();
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.last += 1;
            numbers.push(self.last);
            let sent =
                Sent { by, waiting, message: self.message + 1, to: owner, at: now, tries: 1, is_open: false };
            self.sent.insert(self.last, sent);
        }
        if numbers.is_empty() {
            return false;
        }
        self.message += 1;
        self.messages.insert(self.message, numbers.len());
        self.pack(owner, &numbers, out);
        true
    }

    /// Puts calls into messages.
    fn pack(&self, owner: NodeId, numbers: &[u64], out: &mut Vec<(NodeId, Vec<Call>)>) {
        let mut oldest: BTreeMap<WriterId, u64> = BTreeMap::new();
        for (&number, sent) in &self.sent {
            oldest.entry(sent.by).or_insert(number);
        }
        let (mut calls, mut changes) = (Vec::new(), 0);
        for &number in numbers {
            let Some(sent) = self.sent.get(&number) else { continue };
            let len = sent.waiting.changes.len();
            if changes + len > MESSAGE_CHANGES && !calls.is_empty() {
                out.push((owner, std::mem::take(&mut calls)));
                changes = 0;
            }
            changes += len;
            calls.push(Call {
                id: CallId { by: sent.by, number },
                oldest: oldest.get(&sent.by).copied().unwrap_or(number),
                changes: sent.waiting.changes.clone(),
            });
        }
        if !calls.is_empty() {
            out.push((owner, calls));
        }
    }

    /// Ends calls that have waited too long.
    fn expire(&mut self, now: Duration) {
        while self.waiting.front().is_some_and(|first| first.until <= now) {
            let first = self.waiting.pop_front();
            self.done.extend(first.map(|first| (first.token, Err(Failure::NoOwner))));
        }
        while self.delayed.front().is_some_and(|(_, first)| first.until <= now) {
            let first = self.delayed.pop_front();
            let failure = Failure::Refused(Refusal::Delayed);
            self.done.extend(first.map(|(_, first)| (first.token, Err(failure.clone()))));
        }
        let over: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, sent)| sent.waiting.until <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            self.end(number, Err(Failure::Unknown));
        }
    }

    /// A node answers.
    pub fn answered(&mut self, from: NodeId, Answer { id, reply }: Answer, now: Duration) {
        let Some(sent) = self.sent.get_mut(&id.number).filter(|sent| sent.by == id.by) else { return };
        match reply {
            Reply::Judged(verdict) if verdict.is_forgotten() => {
                self.retired = Some(id.by);
                if sent.is_open || sent.to != from {
                    // An earlier try may have been executed before the process was forgotten.
                    return self.end(id.number, Err(Failure::Unknown));
                }
                // It is void: it goes again under another number of the process.
                if let Some(waiting) = self.take(id.number) {
                    self.waiting.push_front(waiting);
                }
            }
            Reply::Judged(verdict) => self.end(id.number, Ok(verdict)),
            Reply::Refused(_) if sent.to != from => {}
            Reply::Refused(Refusal::NotOwner) => {
                // If this answers the only try, nothing was logged, as no message comes twice.
                (sent.tries, sent.at) = (0, now);
            }
            Reply::Refused(Refusal::Delayed) if !sent.is_open => {
                // It was not logged, and never will be under this number.
                if let Some(waiting) = self.take(id.number) {
                    self.delayed.push_back((now + DELAY, waiting));
                }
            }
            Reply::Refused(Refusal::Delayed) => {
                // An earlier owner may have logged it: it keeps its number, and others do not wait for its answer.
                (sent.tries, sent.at) = (0, (now + DELAY).saturating_sub(PAUSE));
                let message = std::mem::take(&mut sent.message);
                self.answered_in(message);
            }
            Reply::Refused(refusal) if !sent.is_open => {
                self.end(id.number, Err(Failure::Refused(refusal)));
            }
            // An owner before this one may have logged it, or do so yet.
            Reply::Refused(_) => (sent.tries, sent.at) = (0, now),
        }
    }

    fn take(&mut self, number: u64) -> Option<Waiting<T>> {
        let sent = self.sent.remove(&number)?;
        self.answered_in(sent.message);
        Some(sent.waiting)
    }

    /// A call of this message has an answer.
    fn answered_in(&mut self, message: u64) {
        if let Some(left) = self.messages.get_mut(&message) {
            *left -= 1;
            if *left == 0 {
                self.messages.remove(&message);
            }
        }
    }

    fn end(&mut self, number: u64, outcome: Result<Verdict, Failure>) {
        if let Some(waiting) = self.take(number) {
            self.done.push((waiting.token, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Void;
    use scalebricks_types::Position;

    const ME: WriterId = WriterId(5);
    const FIRST: NodeId = NodeId::new(1);
    const SECOND: NodeId = NodeId::new(2);

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn client(calls: u32) -> CallClient<u32> {
        let mut client = CallClient::default();
        (0..calls).for_each(|token| client.submit(Vec::new(), token, at(0)));
        client
    }

    fn numbers(sent: &[(NodeId, Vec<Call>)]) -> Vec<(NodeId, Vec<u64>)> {
        sent.iter().map(|(to, calls)| (*to, calls.iter().map(|call| call.id.number).collect())).collect()
    }

    fn judged(by: WriterId, number: u64) -> Answer {
        let reply = Reply::Judged(Verdict::done(Position(number), Vec::new()));
        Answer { id: CallId { by, number }, reply }
    }

    fn refused(number: u64, refusal: Refusal) -> Answer {
        Answer { id: CallId { by: ME, number }, reply: Reply::Refused(refusal) }
    }

    #[test]
    fn calls_that_wait_go_together_and_again_to_the_next_owner() {
        let mut client = client(3);
        assert_eq!(numbers(&client.poll(None, ME, at(0))), []);
        assert_eq!(numbers(&client.poll(Some(FIRST), ME, at(1))), [(FIRST, vec![1, 2, 3])]);
        assert!(client.poll(Some(FIRST), ME, at(2)).is_empty());
        client.answered(FIRST, judged(ME, 2), at(3));
        assert_eq!(numbers(&client.poll(Some(SECOND), ME, at(4))), [(SECOND, vec![1, 3])]);
        assert_eq!(numbers(&client.poll(Some(SECOND), ME, at(1_004))), [(SECOND, vec![1, 3])]);
        client.answered(FIRST, judged(ME, 1), at(3));
        client.submit(Vec::new(), 3, at(1_005));
        let sent = client.poll(Some(SECOND), ME, at(1_005));
        assert_eq!((numbers(&sent), sent[0].1[0].oldest), (vec![(SECOND, vec![4])], 3));
        let done: Vec<u32> = client.take_done().into_iter().map(|(token, _)| token).collect();
        assert_eq!(done, [1, 0]);
    }

    #[test]
    fn a_refusal_of_the_first_owner_is_final_and_one_of_a_later_owner_is_not() {
        let mut client = client(3);
        client.poll(Some(FIRST), ME, at(0));
        client.answered(FIRST, refused(1, Refusal::NoRoom), at(1));
        assert_eq!(client.take_done(), [(0, Err(Failure::Refused(Refusal::NoRoom)))]);
        // A node that answers that it is not the owner has not logged it.
        client.answered(FIRST, refused(2, Refusal::NotOwner), at(1));
        assert!(client.poll(Some(FIRST), ME, at(20)).is_empty());
        assert_eq!(numbers(&client.poll(Some(FIRST), ME, at(60))), [(FIRST, vec![2])]);
        client.answered(FIRST, refused(2, Refusal::NoRoom), at(61));
        assert_eq!(client.take_done(), [(1, Err(Failure::Refused(Refusal::NoRoom)))]);
        client.poll(Some(SECOND), ME, at(62));
        client.answered(FIRST, refused(3, Refusal::NoRoom), at(63));
        client.answered(SECOND, refused(3, Refusal::NoRoom), at(63));
        assert!(client.take_done().is_empty(), "the first may have logged it");
        client.poll(Some(SECOND), ME, DEADLINE);
        assert_eq!(client.take_done(), [(2, Err(Failure::Unknown))]);
    }

    #[test]
    fn a_delayed_call_goes_again_and_holds_up_no_other() {
        let mut client = client(0);
        let delayed = |number| refused(number, Refusal::Delayed);
        for number in 1..=5 {
            client.submit(Vec::new(), number as u32, at(0));
            assert_eq!(numbers(&client.poll(Some(FIRST), ME, at(0))), [(FIRST, vec![number])]);
            client.answered(FIRST, delayed(number), at(0));
        }
        assert!(client.take_done().is_empty() && client.len() == 5);
        assert!(client.poll(Some(FIRST), ME, at(499)).is_empty());
        let again = client.poll(Some(FIRST), ME, at(500));
        assert_eq!(
            numbers(&again),
            [(FIRST, vec![6, 7, 8, 9, 10])],
            "they were never logged under the first numbers"
        );
        client.answered(FIRST, judged(ME, 7), at(501));
        assert!(matches!(client.take_done()[..], [(2, Ok(_))]));
        // The next owner delays them: the first may have logged them, so they keep their numbers.
        assert_eq!(numbers(&client.poll(Some(SECOND), ME, at(502))), [(SECOND, vec![6, 8, 9, 10])]);
        for number in [6, 8, 9, 10] {
            client.answered(SECOND, delayed(number), at(503));
        }
        client.submit(Vec::new(), 6, at(504));
        assert_eq!(numbers(&client.poll(Some(SECOND), ME, at(504))), [(SECOND, vec![11])]);
        assert!(client.poll(Some(SECOND), ME, at(1_002)).is_empty());
        assert_eq!(numbers(&client.poll(Some(SECOND), ME, at(1_003))), [(SECOND, vec![6, 8, 9, 10])]);
    }

    /// A caller whose call was never executed is told that nothing changed.
    #[test]
    fn a_call_that_is_delayed_to_the_end_was_not_executed() {
        let mut client = client(1);
        client.poll(Some(FIRST), ME, at(0));
        client.answered(FIRST, refused(1, Refusal::Delayed), DEADLINE.saturating_sub(at(1)));
        client.poll(Some(FIRST), ME, DEADLINE);
        assert_eq!(client.take_done(), [(0, Err(Failure::Refused(Refusal::Delayed)))]);
    }

    #[test]
    fn a_refusal_after_an_earlier_attempt_is_not_final() {
        let mut client = client(1);
        client.poll(Some(FIRST), ME, at(0));
        assert_eq!(numbers(&client.poll(Some(FIRST), ME, at(1_000))), [(FIRST, vec![1])]);
        // Its process may have started after another one, under the same number, logged the call.
        client.answered(FIRST, refused(1, Refusal::NoRoom), at(1_001));
        assert!(client.take_done().is_empty());
        assert_eq!(numbers(&client.poll(Some(FIRST), ME, at(1_100))), [(FIRST, vec![1])]);
        client.answered(FIRST, judged(ME, 1), at(1_101));
        assert!(matches!(client.take_done()[..], [(0, Ok(_))]));
    }

    #[test]
    fn a_forgotten_process_draws_another_number_if_nothing_was_executed() {
        let mut client = client(1);
        let retired = |by, number| Answer {
            id: CallId { by, number },
            reply: Reply::Judged(Verdict::void(Position(9), Void::WriterRetired)),
        };
        client.poll(Some(FIRST), ME, at(0));
        client.answered(FIRST, retired(ME, 1), at(1));
        assert_eq!(client.retired(), Some(ME));
        assert!(client.poll(Some(FIRST), ME, at(2)).is_empty(), "not under the same number of the process");
        let next = WriterId(6);
        let sent = client.poll(Some(FIRST), next, at(3));
        assert_eq!(sent[0].1[0].id, CallId { by: next, number: 2 });
        client.answered(FIRST, judged(next, 2), at(5));
        assert!(matches!(client.take_done()[..], [(0, Ok(_))]));
        // It was sent twice: one of them may have been executed.
        client.submit(Vec::new(), 1, at(10));
        client.poll(Some(FIRST), next, at(10));
        client.poll(Some(SECOND), next, at(11));
        client.answered(SECOND, retired(next, 3), at(12));
        assert_eq!(client.take_done(), [(1, Err(Failure::Unknown))]);
    }

    #[test]
    fn no_more_are_under_way_than_a_partition_remembers() {
        let mut client = client(3_000);
        let sent = client.poll(Some(FIRST), ME, at(0));
        assert_eq!(sent.iter().map(|(_, calls)| calls.len() as u64).sum::<u64>(), WINDOW);
        for number in 2..=WINDOW {
            client.answered(FIRST, judged(ME, number), at(1));
        }
        assert!(client.poll(Some(FIRST), ME, at(2)).is_empty(), "the first has no answer");
        client.answered(FIRST, judged(ME, 1), at(3));
        assert_eq!(client.poll(Some(FIRST), ME, at(4))[0].1[0].oldest, WINDOW + 1);
    }
}
