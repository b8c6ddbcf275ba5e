//! A TCP connection, tracked passively from its segments.
//!
//! [`Connection`] is what a middlebox remembers of one connection: a plain value of 112 bytes, kept beside a flow's record.
//! [`Connection::segment`] judges one segment. It believes only what an endpoint would: sequence numbers and
//! acknowledgments in the window (RFC 9293 §3.10.7.4), resets at the exact sequence number and no SYN in an existing
//! connection (RFC 5961), no old timestamps (RFC 7323). What an attacker can send blindly therefore changes no state.
//!
//! ```
//! use scalebricks_flows::Direction::{Reverse, Forward};
//! use scalebricks_flows::tcp::{Config, Connection, Segment, State, Verdict};
//! use scalebricks_wire::transport::TcpFlags;
//! use std::time::Duration;
//!
//! let segment = |sequence, acknowledgment, flags| Segment {
//!     sequence, acknowledgment, flags: TcpFlags(flags), window: 1_000, payload_len: 0, options: Default::default(),
//! };
//! let (syn, ack) = (TcpFlags::SYN.0, TcpFlags::ACK.0);
//! let mut connection = Connection::default();
//! let config = Config::default();
//! for (from, segment) in [
//!     (Forward, segment(100, 0, syn)),
//!     (Reverse, segment(500, 101, syn | ack)),
//!     (Forward, segment(101, 501, ack)),
//! ] {
//!     assert_eq!(connection.segment(from, &segment, Duration::ZERO, &config).verdict, Verdict::Accepted);
//! }
//! assert_eq!(connection.state(), State::Established);
//! ```

mod config;
mod connection;
mod expected;
mod marks;
mod opening;
mod segment;
pub(crate) mod seq;
mod side;
mod state;
mod verdict;

pub use config::{Config, Timeouts, Vantage};
pub use connection::Connection;
pub use segment::Segment;
pub use side::Side;
pub use state::State;
pub use verdict::{Anomaly, Outcome, Verdict};
