//! Segments and what is expected of them.

use scalebricks_flows::Direction;
use scalebricks_flows::tcp::{Anomaly, Config, Connection, Outcome, Segment, State, Verdict};
use scalebricks_wire::tcp_options::{TcpOptions, Timestamps};
use scalebricks_wire::transport::TcpFlags;
use std::time::Duration;

/// A segment.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub sequence: u32,
    pub ack: u32,
    pub flags: u8,
    pub len: u32,
    pub window: u16,
    pub shift: Option<u8>,
    pub timestamp: Option<u32>,
}

pub const fn bare(sequence: u32, ack: u32) -> Step {
    Step { sequence, ack, flags: TcpFlags::ACK.0, len: 0, window: 20_000, shift: None, timestamp: None }
}

pub const fn syn(sequence: u32) -> Step {
    Step { flags: TcpFlags::SYN.0, ..bare(sequence, 0) }
}

pub const fn syn_ack(sequence: u32, ack: u32) -> Step {
    Step { flags: TcpFlags::SYN.0 | TcpFlags::ACK.0, ..bare(sequence, ack) }
}

pub const fn ack(sequence: u32, ack: u32) -> Step {
    bare(sequence, ack)
}

pub const fn data(sequence: u32, ack: u32, len: u32) -> Step {
    Step { len, ..bare(sequence, ack) }
}

pub const fn fin(sequence: u32, ack: u32) -> Step {
    Step { flags: TcpFlags::FIN.0 | TcpFlags::ACK.0, ..bare(sequence, ack) }
}

pub fn rst(sequence: u32, ack: Option<u32>) -> Step {
    let flags = TcpFlags::RST.0 | if ack.is_some() { TcpFlags::ACK.0 } else { 0 };
    Step { flags, window: 0, ..bare(sequence, ack.unwrap_or(0)) }
}

impl Step {
    pub fn segment(&self) -> Segment {
        let timestamps = self.timestamp.map(|value| Timestamps { value, echo: 0 });
        Segment {
            sequence: self.sequence,
            acknowledgment: self.ack,
            flags: TcpFlags(self.flags),
            window: self.window,
            payload_len: self.len,
            options: TcpOptions { window_shift: self.shift, timestamps, ..TcpOptions::default() },
        }
    }
}

/// What was noted about an accepted segment.
pub struct Noted(Outcome);

impl Noted {
    #[track_caller]
    pub fn has(self, anomaly: Anomaly) {
        assert!(self.0.anomalies.contains(anomaly), "{:?} lacks {anomaly:?}", self.0.anomalies);
    }

    #[track_caller]
    pub fn has_nothing(self) {
        assert!(self.0.anomalies.is_empty(), "{:?}", self.0.anomalies);
    }
}

/// A connection in a conversation.
#[derive(Clone)]
pub struct Script {
    pub connection: Connection,
    pub config: Config,
    pub now: Duration,
}

impl Script {
    pub fn new(config: Config) -> Self {
        Self { connection: Connection::default(), config, now: Duration::ZERO }
    }

    pub fn step(&mut self, from: Direction, step: Step) -> Outcome {
        self.connection.segment(from, &step.segment(), self.now, &self.config)
    }

    #[track_caller]
    pub fn accept(&mut self, from: Direction, step: Step, state: State) -> Noted {
        let outcome = self.step(from, step);
        assert_eq!(outcome.verdict, Verdict::Accepted, "{step:?}");
        assert_eq!(self.connection.state(), state, "{step:?}");
        Noted(outcome)
    }

    /// The segment is refused, and changes nothing.
    #[track_caller]
    pub fn refuse(&mut self, from: Direction, step: Step, anomaly: Anomaly) {
        let before = self.connection.state();
        let outcome = self.step(from, step);
        assert_eq!(outcome.verdict, Verdict::Refused(anomaly), "{step:?}");
        assert_eq!(self.connection.state(), before);
        assert!(outcome.anomalies.contains(anomaly) && self.connection.anomalies().contains(anomaly));
    }

    /// The segment begins another connection, whose first sender is the forward one.
    #[track_caller]
    pub fn replace(&mut self, from: Direction, step: Step, state: State) {
        let outcome = self.step(from, step);
        assert_eq!(outcome.verdict, Verdict::Replaced, "{step:?}");
        let (connection, from) = self.connection.successor(from, &step.segment());
        self.connection = connection;
        self.accept(from, step, state);
    }
}
