//! The task that owns the agent: passes events to it and carries out its actions.

use super::counters::{CounterEvent, CounterTransfer, flow_count};
use super::event::Event;
use super::follow::{PartitionFollower, confirm};
use super::inbox::{Beats, Inbox};
use super::leasing::Leasing;
use super::peers::Peers;
use super::placement::Placed;
use super::plane::{PlaneConfig, PlaneState};
use super::pulses::Pulses;
use super::repins::RepinNotice;
use super::rib::LogReader;
use super::snapshots::keep;
use super::verify::Verifications;
use super::waiting::Waiters;
use super::wire::{Envelope, Message};
use super::write::Work;
use super::{shape, view};
use scalebricks_control::agent::{Action, Agent, Packet};
use scalebricks_control::calls::{Answer, Refusal};
use scalebricks_control::codec::Encoded;
use scalebricks_control::distribution::{self, Tables};
use scalebricks_control::engine::{Engine, Entry};
use scalebricks_control::partition::{Judged, Outcome, Void};
use scalebricks_control::record::{Call, CallId, Change, Session};
use scalebricks_elements::gateway::FlowCount;
use scalebricks_types::{FlowKey, NodeId, PartitionId, Position};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Most events handled before the agent is polled.
const TOGETHER: usize = 512;

/// Interval of polling the agent without events.
const TICK: Duration = Duration::from_millis(5);

/// Time between two updates of the relays.
const ROUTE_EVERY: Duration = Duration::from_millis(100);

/// Time between two removals of abandoned requests.
const TIDY: Duration = Duration::from_secs(10);

/// The partition is another node's, or not loaded.
struct NotHere;

/// The actor task.
pub(super) struct Actor<T> {
    pub(super) agent: Agent<T>,
    config: PlaneConfig,
    engine: Arc<dyn Engine>,
    pub(super) peers: Arc<Peers>,
    next_routes: Duration,
    pulses: Pulses,
    pub(super) shared: Arc<PlaneState>,
    events: mpsc::Sender<Event>,
    beats: Arc<Beats>,
    start: Instant,
    /// Partitions whose logs are followed.
    followed: HashMap<PartitionId, (u64, AbortHandle)>,
    loads: u64,
    questions: HashMap<u64, oneshot::Sender<Option<Session>>>,
    tallies: HashMap<u64, oneshot::Sender<Option<FlowCount>>>,
    asked: u64,
    waiters: Waiters,
    /// To the task that transfers counters.
    counts: Option<mpsc::Sender<CounterEvent>>,
    next_tidy: Duration,
    next_word_of_delays: Duration,
    verifications: Verifications,
    /// The placement that the agent knows.
    placed: Arc<Placed>,
    /// Notices of moved flows to send, by the heirs of each node.
    pub(super) repins: Vec<RepinNotice>,
}

impl<T: Tables> Actor<T> {
    pub(super) fn new(
        agent: Agent<T>,
        config: PlaneConfig,
        engine: Arc<dyn Engine>,
        peers: Arc<Peers>,
        shared: Arc<PlaneState>,
        Inbox { events, beats }: Inbox,
        verifications: Verifications,
    ) -> Self {
        Self {
            pulses: Pulses::new(config.node, Arc::clone(&engine), events.clone()),
            agent,
            config,
            engine,
            peers,
            next_routes: Duration::ZERO,
            shared,
            events,
            beats,
            start: Instant::now(),
            followed: HashMap::new(),
            loads: 0,
            questions: HashMap::new(),
            tallies: HashMap::new(),
            asked: 0,
            waiters: Waiters::default(),
            counts: None,
            next_tidy: TIDY,
            next_word_of_delays: Duration::ZERO,
            verifications,
            placed: Arc::default(),
            repins: Vec::new(),
        }
    }

    /// Runs until no sender of events is left, or `stop` fires.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<Event>, mut stop: oneshot::Receiver<()>) {
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            // Yields to all tasks that are ready to run: under load they add events, so the agent is polled less often and handles more
            // at once.
            tokio::task::yield_now().await;
            tokio::select! {
                biased; // the same run for the same input
                _ = &mut stop => return,
                count = events.recv_many(&mut together, TOGETHER) => if count == 0 { return },
                () = tokio::time::sleep(TICK) => {}
            }
            let now = self.start.elapsed();
            for (from, beat) in self.beats.take() {
                self.agent.beat(from, &beat, now);
            }
            for event in together.drain(..) {
                self.happened(event, now);
            }
            self.place();
            self.agent.set_fitness(self.shared.fitness());
            self.route(now);
            for action in self.agent.poll(now) {
                self.act(action);
            }
            for notice in std::mem::take(&mut self.repins) {
                self.tell_repin(notice);
            }
            self.tell(now);
        }
    }

    /// Updates the relays.
    fn route(&mut self, now: Duration) {
        if now >= self.next_routes {
            self.next_routes = now + ROUTE_EVERY;
            self.peers.set_relays(self.agent.membership().relays(now));
        }
    }

    fn happened(&mut self, event: Event, now: Duration) {
        match event {
            Event::Pulsed(node) => self.agent.pulsed(node, now),
            Event::Viewed(revision, view) => {
                let before = self.agent.membership().view().clone();
                self.agent.viewed(revision, view, now);
                self.tell_suspensions(&before);
            }
            Event::Shaped(revision, shape) => self.agent.shaped(revision, shape),
            Event::Reshaped(partition) => self.agent.reshaped(partition),
            Event::Came(from, bytes) => self.came(from, &bytes, now),
            Event::Restored(load, partition, last) => {
                let id = partition.id();
                if self.is_current(id, load) && !self.agent.restored(*partition, last) {
                    self.agent.reload(id);
                }
            }
            Event::Entries(partition, load, entries) => {
                if self.is_current(partition, load) {
                    self.entries(partition, &entries);
                }
            }
            Event::LogLost(partition, load, last) => {
                if self.is_current(partition, load) {
                    self.shared.reloads.fetch_add(1, Ordering::Relaxed);
                    self.waiters.lost(partition, last);
                    self.agent.log_lost(partition, last);
                }
            }
            Event::LogEnds(partition, reported, last) => self.agent.log_ends(partition, reported, last),
            Event::Kept(partition, is_durable) => self.agent.kept(partition, is_durable),
            Event::Closed(partition) => self.agent.closed(partition),
            Event::Called(partition, calls) => self.agent.called(self.agent.node(), partition, calls),
            Event::NotLogged(partition, calls, refusal) => {
                self.agent.not_logged(partition, &calls, &refusal);
            }
            Event::Ask(key, answer) => self.ask(key, answer),
            Event::Wait(positions, answer) => self.waiters.add(positions, answer),
            Event::Tally(node, flow, answer) if node == self.agent.node() => {
                self.hand_on(CounterEvent::Ask(flow, answer));
            }
            Event::Tally(node, flow, answer) => {
                self.asked += 1;
                self.tallies.insert(self.asked, answer);
                self.peers.send(node, Message::Tally(self.asked, flow));
            }
            Event::RebindAfter(wait) => self.agent.set_rebind_after(wait),
            Event::Carry(tables) => {
                let (node, peers, shared) =
                    (self.config.node, Arc::clone(&self.peers), Arc::clone(&self.shared));
                self.counts.get_or_insert_with(|| CounterTransfer::start(node, tables, peers, shared));
            }
            Event::Where(partition, answer) => {
                let _gone = answer.send(self.agent.replica().report(partition));
            }
            Event::Leaving(partition, keys, answer) => {
                let is_leaving = |key| self.agent.replica().is_leaving(partition, key);
                let _gone = answer.send(keys.iter().map(is_leaving).collect());
            }
            Event::Verify(node, told, answer) => {
                self.verifications.ask(node, told, answer, &self.peers);
            }
            Event::Tell(notice) => self.tell_repin(notice),
        }
    }

    /// Another node sent something.
    fn came(&mut self, from: NodeId, bytes: &[u8], now: Duration) {
        match Envelope::decode(bytes) {
            Ok(Envelope::Direct(message)) => self.received(from, message, now),
            Ok(Envelope::Relay(to, message)) => self.peers.pass_on(from, to, message),
            Ok(Envelope::Relayed(sender, message)) => self.received(sender, message, now),
            Err(error) => {
                self.shared.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(from = from.get(), %error, "a malformed message was ignored");
            }
        }
    }

    fn received(&mut self, from: NodeId, message: Message, now: Duration) {
        match message {
            Message::Packet(packet) => {
                if let Packet::Message(distribution::Message::Rewind(rewind)) = &packet {
                    self.waiters.lost(rewind.partition, rewind.last);
                }
                self.agent.packet(from, packet, now);
            }
            Message::Question(number, key) => {
                // A node that is not the owner does not answer: the sender asks again. Nor does an owner without a lease, as
                // another may own the partition by now.
                let has_lease = self.shared.lease.get().is_none_or(Leasing::is_held);
                if let Some(found) = self.look_up(&key).ok().filter(|_| has_lease) {
                    self.peers.send(from, Message::Answer(number, found));
                }
            }
            Message::Answer(number, session) => {
                if let Some(answer) = self.questions.remove(&number) {
                    let _gone = answer.send(session);
                }
            }
            Message::Counts(packet) => self.hand_on(CounterEvent::Packet(from, packet)),
            Message::Tally(number, flow) if self.counts.is_some() => {
                self.hand_on(CounterEvent::Question(from, number, flow));
            }
            // No counters are transferred here.
            Message::Tally(number, _) => self.peers.send(from, Message::Tallied(number, None)),
            Message::Tallied(number, count) => {
                if let Some(answer) = self.tallies.remove(&number) {
                    let _gone = answer.send(count.map(flow_count));
                }
            }
            Message::Verify(number, told) => self.verifications.asked(from, number, told, &self.peers),
            Message::Verdict(number, verdict) => self.verifications.answered(from, number, verdict),
            Message::Repinned(notice) => self.shared.repins.add(notice),
            Message::Calls(partition, calls) => self.agent.called(from, partition, calls),
            Message::Answers(partition, answers) => self.answered(from, partition, answers),
        }
    }

    /// Passes an owner's answers to this process's calls on. If the queue is full they are lost, and the calls repeated.
    fn answered(&self, from: NodeId, partition: PartitionId, answers: Vec<Answer>) {
        if let Some(queues) = self.shared.call_queues.get(usize::from(partition.0)) {
            let _lost = queues.answers.try_send((from, answers));
        }
    }

    /// Logs calls.
    fn log(&mut self, partition: PartitionId, calls: Vec<Call>) {
        let log = &self.shared.logs[usize::from(partition.0)];
        if let Err(TrySendError::Full(Work::Calls(calls))) = log.try_send(Work::Calls(calls)) {
            let ids: Vec<CallId> = calls.iter().map(|call| call.id).collect();
            self.agent.not_logged(partition, &ids, &Refusal::Busy);
        }
    }

    /// To the task that transfers counters. If its queue is full the packet is lost, and repeated by its sender.
    fn hand_on(&self, arrived: CounterEvent) {
        if let Some(counts) = &self.counts {
            let _lost = counts.try_send(arrived);
        }
    }

    /// Passes a changed placement to the agent.
    fn place(&mut self) {
        let placed = self.shared.placed.load_full();
        if !Arc::ptr_eq(&placed, &self.placed) {
            self.agent.set_placement(placed.revision, placed.placement.clone());
            self.placed = placed;
        }
    }

    fn is_current(&self, partition: PartitionId, load: u64) -> bool {
        self.followed.get(&partition).is_some_and(|(current, _)| *current == load)
    }

    fn entries(&mut self, partition: PartitionId, entries: &[Entry]) {
        for entry in entries {
            match self.agent.entry(partition, entry) {
                Ok(Some(applied)) => {
                    let is_forgotten =
                        matches!(applied.outcome, Outcome::Void(Void::WriterRetired | Void::BelowWindow));
                    if is_forgotten && entry.batch.id.writer == self.shared.identity.get() {
                        // The batch is void, and its changes are submitted again.
                        let (identity, writer) = (Arc::clone(&self.shared.identity), entry.batch.id.writer);
                        tokio::spawn(async move { identity.renew(writer).await });
                    }
                    // Entries that were logged twice are expected, other void entries are not.
                    let as_a_whole = match applied.outcome {
                        Outcome::Done | Outcome::Void(Void::Applied | Void::Duplicate) => 0,
                        Outcome::Void(why) => {
                            tracing::warn!(partition = partition.0, position = entry.position.0, %why, "a log entry has no effect");
                            1
                        }
                    };
                    let void = |(_, verdict): &&Judged| matches!(verdict.outcome, Outcome::Void(_));
                    let unexpected = applied.voids.iter().filter(|(_, why)| *why != Void::Applied);
                    let voids = unexpected.count() + applied.calls.iter().filter(void).count();
                    let voids = voids as u64 + as_a_whole;
                    self.shared.applied.fetch_add(1, Ordering::Relaxed);
                    self.shared.voids.fetch_add(voids, Ordering::Relaxed);
                }
                Ok(None) => {}
                Err(gap) => {
                    tracing::error!(%gap, "cannot apply a log entry; loading the partition again");
                    return;
                }
            }
        }
    }

    /// The session of a key, if this node owns its partition and has read the log that existed when it was loaded.
    fn look_up(&self, key: &FlowKey) -> Result<Option<Session>, NotHere> {
        let partition = self.agent.open_partition(self.shared.partition_of(key)).ok_or(NotHere)?;
        // Without the epoch of the log: a new pin of the key names another.
        Ok(partition.session(key).map(|(session, _)| Session::new(session.node, session.value)))
    }

    fn ask(&mut self, key: FlowKey, answer: oneshot::Sender<Option<Session>>) {
        if let Ok(found) = self.look_up(&key) {
            let _gone = answer.send(found);
            return;
        }
        let owner = self.agent.membership().view().owner(self.shared.partition_of(&key));
        // Without an owner or an answer, the caller finds the channel closed or times out.
        if let Some(owner) = owner.filter(|owner| *owner != self.agent.node()) {
            self.asked += 1;
            self.questions.insert(self.asked, answer);
            self.peers.send(owner, Message::Question(self.asked, key));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Beat(beat) => self.peers.beat(beat),
            Action::Pulse => self.pulses.publish(),
            Action::Listen(listens) => self.pulses.listen(listens),
            Action::Send(to, packet) => self.peers.send(to, Message::Packet(packet)),
            Action::Propose(revision, view) => {
                let (engine, events) = (Arc::clone(&self.engine), self.events.clone());
                tokio::spawn(view::propose(engine, revision, view, events));
            }
            Action::Load(partition) => self.follow(partition),
            Action::Unload(partition) => {
                if let Some((_, task)) = self.followed.remove(&partition) {
                    task.abort();
                }
            }
            Action::Close(partition, closures) => self.close(partition, closures),
            Action::Reshape(partition, params) => {
                let done = Event::Reshaped(partition);
                self.write(partition, vec![Change::Reshape(params)], done);
            }
            Action::ProposeShape(revision, shape) => {
                let (engine, events) = (Arc::clone(&self.engine), self.events.clone());
                tokio::spawn(shape::propose(engine, revision, shape, events));
            }
            Action::Append(partition, calls) => self.log(partition, calls),
            Action::Answer(to, partition, answers) if to == self.agent.node() => {
                self.answered(to, partition, answers);
            }
            Action::Answer(to, partition, answers) => {
                self.peers.send(to, Message::Answers(partition, answers));
            }
            Action::Keep(partition, snapshot) => {
                tokio::spawn(keep(Arc::clone(&self.engine), partition, snapshot, self.events.clone()));
            }
            Action::Confirm(partition, reported) => {
                let (engine, events) = (Arc::clone(&self.engine), self.events.clone());
                tokio::spawn(confirm(engine, partition, reported, events));
            }
        }
    }

    fn follow(&mut self, partition: PartitionId) {
        self.loads += 1;
        let follower = PartitionFollower {
            reading: LogReader {
                engine: Arc::clone(&self.engine),
                params: self.shared.shape.load().first,
                hasher: self.config.hasher,
            },
            partition,
            load: self.loads,
            events: self.events.clone(),
        };
        let task = tokio::spawn(follower.run()).abort_handle();
        if let Some((_, before)) = self.followed.insert(partition, (self.loads, task)) {
            before.abort();
        }
    }

    /// Logs changes of the agent, and sends `done` when they are in the log.
    pub(super) fn write(&self, partition: PartitionId, changes: Vec<Change>, done: Event) {
        let (answer, logged) = oneshot::channel();
        let work = Work::Own(changes, answer);
        let log = self.shared.logs[usize::from(partition.0)].clone();
        let events = self.events.clone();
        tokio::spawn(async move {
            if log.send(work).await.is_ok() {
                let _outcome = logged.await;
            }
            // If it failed, the agent asks again.
            let _ends = events.send(done).await;
        });
    }

    /// Publishes the agent's state to the rest of the process.
    fn tell(&mut self, now: Duration) {
        let mut keys = 0;
        for at in 0..self.config.partitions.get() {
            let partition = PartitionId(at as u16);
            let target = self.agent.replica().target(partition);
            self.waiters.settled(partition, target.map_or(Position(0), |target| target.settled));
            keys += target.map_or(0, |target| target.keys);
            if let Some((target, reached)) = target.zip(self.agent.replica().gpt_position(partition)) {
                self.shared.progress.set(partition, [reached, target.settled, target.newest]);
            }
        }
        self.shared.keys.store(keys, Ordering::Relaxed);
        self.shared.viewed(self.agent.membership().view());
        if let Some(shape) = self.agent.shape().filter(|shape| shape != &**self.shared.shape.load()) {
            self.shared.shape.store(Arc::new(shape));
        }
        let (life, has_caught_up) = (self.agent.membership().life(), self.agent.has_caught_up());
        self.shared.has_caught_up.store(has_caught_up, Ordering::Relaxed);
        self.shared.caught_up_in.store(if has_caught_up { life } else { 0 }, Ordering::Relaxed);
        self.shared.life.store(life, Ordering::Relaxed);
        let (before, stats) = (self.shared.agent.load_full(), self.agent.stats());
        if *before != stats {
            if stats.calls_delayed > before.calls_delayed && now >= self.next_word_of_delays {
                self.next_word_of_delays = now + TIDY;
                tracing::info!(
                    calls = stats.calls_delayed,
                    "changes wait: a node that was removed may still forward their keys for other flows"
                );
            }
            self.shared.agent.store(Arc::new(stats));
        }
        if now >= self.next_tidy {
            self.next_tidy = now + TIDY;
            self.waiters.tidy();
            self.verifications.tidy();
            self.questions.retain(|_, answer| !answer.is_closed());
            self.tallies.retain(|_, answer| !answer.is_closed());
        }
    }
}
