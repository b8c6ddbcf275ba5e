//! The one task that owns the agent: it hands it what comes, and does what it says.

use super::counters::{Arrived, Carrying, flow_count};
use super::event::Event;
use super::follow::{PartitionFollower, confirm};
use super::inbox::{Beats, Inbox};
use super::leasing::Leasing;
use super::placement::Placed;
use super::plane::{Link, PlaneConfig, Shared};
use super::pulses::Pulses;
use super::relaying::Relaying;
use super::repins::RepinNotice;
use super::rib::Reading;
use super::snapshots::keep;
use super::verify::Verifications;
use super::waiting::Waiters;
use super::wire::Envelope;
use super::write::Work;
use super::{shape, view};
use scalebricks_control::agent::{Action, Agent, Packet};
use scalebricks_control::calls::{Answer, Refusal};
use scalebricks_control::distribution::{Message, Tables};
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

/// Events handled before the agent is asked what is to be done.
const TOGETHER: usize = 512;

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(5);

/// Time between two looks who is reached through whom.
const ROUTE_EVERY: Duration = Duration::from_millis(100);

/// Time between two looks for what nobody waits for any more.
const TIDY: Duration = Duration::from_secs(10);

/// The partition is another's, or not loaded.
struct NotHere;

/// The task.
pub(super) struct Actor<T> {
    pub(super) agent: Agent<T>,
    config: PlaneConfig,
    engine: Arc<dyn Engine>,
    pub(super) link: Arc<dyn Link>,
    /// The same link.
    relaying: Arc<Relaying>,
    next_routes: Duration,
    pulses: Pulses,
    pub(super) shared: Arc<Shared>,
    events: mpsc::Sender<Event>,
    beats: Arc<Beats>,
    start: Instant,
    /// Partitions that are followed.
    followed: HashMap<PartitionId, (u64, AbortHandle)>,
    loads: u64,
    questions: HashMap<u64, oneshot::Sender<Option<Session>>>,
    tallies: HashMap<u64, oneshot::Sender<Option<FlowCount>>>,
    asked: u64,
    waiters: Waiters,
    /// To who carries counters.
    counts: Option<mpsc::Sender<Arrived>>,
    next_tidy: Duration,
    next_word_of_delays: Duration,
    verifications: Verifications,
    /// What the agent knows of what the controller says of nodes.
    placed: Arc<Placed>,
    /// Nodes whose keys go to others, not yet told of, by the heirs of each.
    pub(super) repins: Vec<RepinNotice>,
}

impl<T: Tables> Actor<T> {
    pub(super) fn new(
        agent: Agent<T>,
        config: PlaneConfig,
        engine: Arc<dyn Engine>,
        relaying: Arc<Relaying>,
        shared: Arc<Shared>,
        Inbox { events, beats }: Inbox,
        verifications: Verifications,
    ) -> Self {
        Self {
            pulses: Pulses::new(config.node, Arc::clone(&engine), events.clone()),
            agent,
            config,
            engine,
            link: Arc::clone(&relaying) as Arc<dyn Link>,
            relaying,
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

    /// Goes on until nobody can send events any more, or `stop` is told.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<Event>, mut stop: oneshot::Receiver<()>) {
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            // Behind all that is ready to run, which under load adds to what comes: the agent is asked more seldom, and says more at
            // once.
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

    /// Keeps up with who is reached through whom.
    fn route(&mut self, now: Duration) {
        if now >= self.next_routes {
            self.next_routes = now + ROUTE_EVERY;
            self.relaying.route(self.agent.membership().relays(now));
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
            Event::Repinned(partition, from) => self.agent.repinned(partition, from),
            Event::Closed(partition) => self.agent.closed(partition),
            Event::Called(partition, calls) => self.agent.called(self.agent.node(), partition, calls),
            Event::NotLogged(partition, calls, refusal) => {
                self.agent.not_logged(partition, &calls, &refusal);
            }
            Event::Ask(key, answer) => self.ask(key, answer),
            Event::Wait(positions, answer) => self.waiters.add(positions, answer),
            Event::Tally(node, flow, answer) if node == self.agent.node() => {
                self.hand_on(Arrived::Ask(flow, answer));
            }
            Event::Tally(node, flow, answer) => {
                self.asked += 1;
                self.tallies.insert(self.asked, answer);
                self.link.send(node, Envelope::Tally(self.asked, flow).encode(self.agent.spoken()));
            }
            Event::RebindAfter(wait) => self.agent.set_rebind_after(wait),
            Event::Carry(tables) => {
                let (node, link, shared) =
                    (self.config.node, Arc::clone(&self.link), Arc::clone(&self.shared));
                self.counts.get_or_insert_with(|| Carrying::start(node, tables, link, shared));
            }
            Event::Where(partition, answer) => {
                let _gone = answer.send(self.agent.replica().report(partition));
            }
            Event::Leaving(partition, keys, answer) => {
                let is_leaving = |key| self.agent.replica().is_leaving(partition, key);
                let _gone = answer.send(keys.iter().map(is_leaving).collect());
            }
            Event::Verify(node, told, answer) => {
                self.verifications.ask(node, told, answer, &*self.link);
            }
            Event::Tell(notice) => self.tell_repin(notice),
        }
    }

    /// Another node sent something.
    fn came(&mut self, from: NodeId, bytes: &[u8], now: Duration) {
        match Envelope::decode(bytes) {
            Ok(Envelope::Packet(packet)) => {
                if let Packet::Message(Message::Rewind(rewind)) = &packet {
                    self.waiters.lost(rewind.partition, rewind.last);
                }
                self.agent.packet(from, packet, now);
            }
            Ok(Envelope::Question(number, key)) => {
                // Who is not the owner says nothing: the one who asks asks again. Nor does an owner without a lease, as another may
                // own the partition by now.
                let has_lease = self.shared.lease.get().is_none_or(Leasing::is_held);
                if let Some(found) = self.look_up(&key).ok().filter(|_| has_lease) {
                    self.link.send(from, Envelope::Answer(number, found).encode(self.agent.spoken()));
                }
            }
            Ok(Envelope::Answer(number, session)) => {
                if let Some(answer) = self.questions.remove(&number) {
                    let _gone = answer.send(session);
                }
            }
            Ok(Envelope::Counts(packet)) => self.hand_on(Arrived::Packet(from, packet)),
            Ok(Envelope::Tally(number, flow)) if self.counts.is_some() => {
                self.hand_on(Arrived::Question(from, number, flow));
            }
            Ok(Envelope::Tally(number, _)) => {
                // Nothing counts here.
                self.link.send(from, Envelope::Tallied(number, None).encode(self.agent.spoken()));
            }
            Ok(Envelope::Tallied(number, count)) => {
                if let Some(answer) = self.tallies.remove(&number) {
                    let _gone = answer.send(count.map(flow_count));
                }
            }
            Ok(Envelope::Verify(number, told)) => self.verifications.asked(from, number, told, &self.link),
            Ok(Envelope::Verdict(number, verdict)) => self.verifications.answered(from, number, verdict),
            Ok(Envelope::Repinned(notice)) => self.shared.repins.add(notice),
            Ok(Envelope::Relay(to, bytes)) => self.relaying.pass_on(from, to, bytes),
            // Not relayed itself: see `Envelope::decode`.
            Ok(Envelope::Relayed(from, bytes)) => self.came(from, &bytes, now),
            Ok(Envelope::Calls(partition, calls)) => self.agent.called(from, partition, calls),
            Ok(Envelope::Answers(partition, answers)) => self.answered(from, partition, answers),
            Err(error) => {
                self.shared.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(from = from.get(), %error, "not understood");
            }
        }
    }

    /// An owner tells what became of calls of this process. What finds no room is asked for again.
    fn answered(&self, from: NodeId, partition: PartitionId, answers: Vec<Answer>) {
        if let Some(lane) = self.shared.lanes.get(usize::from(partition.0)) {
            let _lost = lane.answers.try_send((from, answers));
        }
    }

    /// Has calls logged.
    fn log(&mut self, partition: PartitionId, calls: Vec<Call>) {
        let log = &self.shared.logs[usize::from(partition.0)];
        if let Err(TrySendError::Full(Work::Calls(calls))) = log.try_send(Work::Calls(calls)) {
            let ids: Vec<CallId> = calls.iter().map(|call| call.id).collect();
            self.agent.not_logged(partition, &ids, &Refusal::Busy);
        }
    }

    /// To who carries counters. What finds no room comes again, or is asked again.
    fn hand_on(&self, arrived: Arrived) {
        if let Some(counts) = &self.counts {
            let _lost = counts.try_send(arrived);
        }
    }

    /// Hands the agent what the controller says of nodes, if that is news.
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
                        // What it said is void, and is asked for again.
                        let (identity, writer) = (Arc::clone(&self.shared.identity), entry.batch.id.writer);
                        tokio::spawn(async move { identity.renew(writer).await });
                    }
                    // What is there twice was to be expected; what else does nothing was not.
                    let as_a_whole = match applied.outcome {
                        Outcome::Done | Outcome::Void(Void::Applied | Void::Duplicate) => 0,
                        Outcome::Void(why) => {
                            tracing::warn!(partition = partition.0, position = entry.position.0, %why, "an entry does nothing");
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
                    tracing::error!(%gap, "the partition is loaded anew");
                    return;
                }
            }
        }
    }

    /// What a key leads to, if this node owns its partition and has read the log that was there when it was loaded.
    fn look_up(&self, key: &FlowKey) -> Result<Option<Session>, NotHere> {
        let partition = self.agent.open_partition(self.shared.partition_of(key)).ok_or(NotHere)?;
        // The epoch is the log's own: whoever pins the key anew names another.
        Ok(partition.session(key).map(|(session, _)| Session::new(session.node, session.value)))
    }

    fn ask(&mut self, key: FlowKey, answer: oneshot::Sender<Option<Session>>) {
        if let Ok(found) = self.look_up(&key) {
            let _gone = answer.send(found);
            return;
        }
        let owner = self.agent.membership().view().owner(self.shared.partition_of(&key));
        // Without an owner, or if it does not answer: the one who asks finds the channel closed, or gives up.
        if let Some(owner) = owner.filter(|owner| *owner != self.agent.node()) {
            self.asked += 1;
            self.questions.insert(self.asked, answer);
            self.link.send(owner, Envelope::Question(self.asked, key).encode(self.agent.spoken()));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Beat(beat) => self.link.beat(beat),
            Action::Pulse => self.pulses.publish(),
            Action::Listen(listens) => self.pulses.listen(listens),
            Action::Send(to, packet) => {
                self.link.send(to, Envelope::Packet(packet).encode(self.agent.spoken()));
            }
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
            Action::Repin(partition, repin) => self.repin(partition, repin),
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
                let envelope = Envelope::Answers(partition, answers);
                self.link.send(to, envelope.encode(self.agent.spoken()));
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
            reading: Reading {
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

    /// Has changes of the agent's written, and tells when they are in the log.
    pub(super) fn write(&self, partition: PartitionId, changes: Vec<Change>, done: Event) {
        let (answer, logged) = oneshot::channel();
        let work = Work::Own(changes, answer);
        let log = self.shared.logs[usize::from(partition.0)].clone();
        let events = self.events.clone();
        tokio::spawn(async move {
            if log.send(work).await.is_ok() {
                let _outcome = logged.await;
            }
            // If it failed it is asked for once more.
            let _ends = events.send(done).await;
        });
    }

    /// Tells the rest of the process where things are.
    fn tell(&mut self, now: Duration) {
        let mut keys = 0;
        for at in 0..self.config.partitions.get() {
            let partition = PartitionId(at as u16);
            let target = self.agent.replica().target(partition);
            self.waiters.settled(partition, target.map_or(Position(0), |target| target.settled));
            keys += target.map_or(0, |target| target.keys);
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
