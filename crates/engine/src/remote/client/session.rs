//! One connection, from its hello to its end: calls under way, and streams that go on over it.

use super::call::{Call, Command, Reply, Stream};
use super::driver::Driver;
use crate::remote::buffer::{Incoming, Outgoing, Reader, Writer};
use crate::remote::codec::{CHUNK_BYTES, CodecError, End, Request, Response};
use crate::remote::stream_cost;
use futures_util::FutureExt;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// After so many events the socket is looked at, whatever else there is to do.
const FAIR: u32 = 64;

/// Why a session is over.
pub(super) enum Over {
    /// The client was dropped.
    Closed,
    /// The connection is gone.
    Lost(String),
}

#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the server closed it")]
    Eof,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the server sent {0}")]
    Codec(#[from] CodecError),
    #[error("the server sent what was not asked for")]
    Unasked,
    #[error("the server sent more of a stream than it may")]
    Overrun,
}

/// A snapshot on its way out.
struct Upload {
    id: u64,
    bytes: Arc<[u8]>,
    at: usize,
}

enum Event {
    Command(Option<Command>),
    Written,
    Read(bool),
}

pub(super) struct Session<'a> {
    driver: &'a mut Driver,
    reader: Reader,
    writer: Writer,
    events: u32,
    incoming: Incoming,
    outgoing: Outgoing,
    calls: HashMap<u64, (Reply, Option<OwnedSemaphorePermit>)>,
    uploads: VecDeque<Upload>,
}

impl<'a> Session<'a> {
    pub(super) fn new(driver: &'a mut Driver, reader: Reader, writer: Writer) -> Self {
        let mut outgoing = Outgoing::default();
        for (&id, stream) in &mut driver.streams {
            begin(&mut outgoing, id, stream);
        }
        let (incoming, calls, uploads) = (Incoming::default(), HashMap::new(), VecDeque::new());
        Self { driver, reader, writer, events: 0, incoming, outgoing, calls, uploads }
    }

    /// Runs until it is over; then nobody waits for an answer of it any more.
    pub(super) async fn run(mut self) -> Over {
        let error = loop {
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => return Over::Closed,
                Err(error) => break error,
            }
        };
        let why = format!("the connection to the engine at {} was lost: {error}", self.driver.endpoint);
        for (reply, _permit) in self.calls.into_values() {
            reply.lost(&why);
        }
        Over::Lost(error.to_string())
    }

    /// Does what comes first: more to send, room to send it, or answers. `false`: the client was dropped.
    async fn turn(&mut self) -> Result<bool, SessionError> {
        while !self.outgoing.is_full()
            && let Some(call) = self.driver.waiting.pop_front()
        {
            self.send(call);
        }
        self.send_pieces();
        match self.event().await? {
            Event::Command(Some(command)) => return Ok(self.command(command)),
            Event::Command(None) => return Ok(false),
            Event::Written => {}
            Event::Read(false) => return Err(SessionError::Eof),
            Event::Read(true) => {
                while let Some((id, response, len)) = self.incoming.next::<Response>()? {
                    self.response(id, response, len)?;
                }
            }
        }
        Ok(true)
    }

    async fn event(&mut self) -> io::Result<Event> {
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(FAIR)
            && let Some(read) = self.incoming.fill(&mut self.reader).now_or_never()
        {
            return read.map(Event::Read);
        }
        let may_make = !self.outgoing.is_full();
        tokio::select! {
            biased;
            command = self.driver.commands.recv(), if may_make => Ok(Event::Command(command)),
            written = self.outgoing.write(&mut self.writer), if !self.outgoing.is_empty() => {
                written.map(|()| Event::Written)
            }
            read = self.incoming.fill(&mut self.reader) => read.map(Event::Read),
        }
    }

    /// `false`: the client was dropped.
    fn command(&mut self, command: Command) -> bool {
        match command {
            Command::Call(call) => self.send(call),
            Command::Open { id, mut stream } => {
                begin(&mut self.outgoing, id, &mut stream);
                self.driver.streams.insert(id, stream);
            }
            Command::Credit(id) => {
                let more = self.driver.streams.get(&id).map_or(0, |stream| stream.mailbox.grant());
                if more > 0 {
                    self.outgoing.push(id, &Request::Credit { bytes: more });
                }
            }
            Command::Cancel(id) => {
                if self.driver.streams.remove(&id).is_some() {
                    self.outgoing.push(id, &Request::Cancel {});
                }
            }
            Command::Close => return false,
        }
        true
    }

    fn send(&mut self, mut call: Call) {
        self.driver.sent.mark(&mut call, true);
        let Call { id, request, bytes, reply, permit, .. } = call;
        self.outgoing.push(id, &request);
        self.calls.insert(id, (reply, permit));
        self.uploads.extend(bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| Upload { id, bytes, at: 0 }));
    }

    /// Sends pieces of snapshots while there is room, in turn.
    fn send_pieces(&mut self) {
        while !self.outgoing.is_full()
            && let Some(mut upload) = self.uploads.pop_front()
        {
            // Refused before it was sent: the rest is of no use.
            if !self.calls.contains_key(&upload.id) {
                continue;
            }
            let end = upload.bytes.len().min(upload.at + CHUNK_BYTES);
            let bytes = upload.bytes.get(upload.at..end).unwrap_or_default().into();
            self.outgoing.push(upload.id, &Request::Chunk { bytes });
            upload.at = end;
            if end < upload.bytes.len() {
                self.uploads.push_back(upload);
            }
        }
    }

    fn response(&mut self, id: u64, response: Response, len: usize) -> Result<(), SessionError> {
        if let Some((reply, permit)) = self.calls.remove(&id) {
            let more = reply.take(response).map_err(|_| SessionError::Unasked)?;
            self.calls.extend(more.map(|reply| (id, (reply, permit))));
            return Ok(());
        }
        // What comes of a stream whose reader is gone was sent before the server heard of that.
        let Some(stream) = self.driver.streams.get_mut(&id) else { return Ok(()) };
        if let Response::Done { result } = response {
            let is_open = result.is_ok();
            match stream.opened.take() {
                Some((_, tell)) => drop(tell.send(result)),
                None if !is_open => stream.mailbox.end(End::Closed),
                None => {}
            }
            if !is_open {
                self.driver.streams.remove(&id);
            }
            return Ok(());
        }
        let cost = stream_cost(&response, len);
        if !stream.mailbox.spend(cost) {
            return Err(SessionError::Overrun);
        }
        let told = stream.feed.take(response).ok_or(SessionError::Unasked)?;
        if told.is_empty() && cost > 0 {
            // Nobody will read it, and so ask for more.
            self.outgoing.push(id, &Request::Credit { bytes: stream.mailbox.grant() });
        }
        let mut paid = Some(cost);
        for response in told {
            let is_end = matches!(response, Response::End { .. });
            stream.mailbox.put(response, paid.take().unwrap_or(0));
            if is_end {
                self.driver.streams.remove(&id);
                self.outgoing.push(id, &Request::Cancel {});
                break;
            }
        }
        Ok(())
    }
}

fn begin(outgoing: &mut Outgoing, id: u64, stream: &mut Stream) {
    let credit = stream.mailbox.reset();
    outgoing.push(id, &stream.feed.request(credit));
}
