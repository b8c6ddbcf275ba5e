//! Commands to a worker: bounded, and processed between turns.

use crate::element::HandlerError;
use crate::graph::Graph;
use crossbeam_queue::ArrayQueue;
use scalebricks_io::PacketBuf;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// Most commands that can wait.
const COMMANDS: usize = 64;

/// Most commands processed per turn.
pub(crate) const COMMANDS_A_TURN: usize = 4;

/// Receives the old graph.
type GiveBack<P> = Box<dyn FnOnce(Box<Graph<P>>) + Send>;

/// An operation on a graph between turns.
type Call<P> = Box<dyn FnOnce(&mut Graph<P>) + Send>;

/// A command to a worker.
pub(crate) enum Command<P> {
    /// Run another graph and return the old one.
    Replace(Box<Graph<P>>, GiveBack<P>),
    /// Call a function.
    Call(Call<P>),
}

/// The worker's mailbox is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker's mailbox is full: {COMMANDS} commands wait")]
pub struct MailboxFull;

/// The mailbox is full; returns the graph.
#[derive(Debug, thiserror::Error)]
#[error("{MailboxFull}")]
pub struct NotReplaced<P>(pub Box<Graph<P>>);

/// A handle for sending commands to a worker. Clones send to the same worker.
pub struct Remote<P>(pub(crate) Arc<ArrayQueue<Command<P>>>);

impl<P> Clone for Remote<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for Remote<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("waiting", &self.0.len()).finish()
    }
}

impl<P: PacketBuf + 'static> Remote<P> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(ArrayQueue::new(COMMANDS)))
    }

    /// Runs `graph` from the next turn on. State and queues are handed over by name and class. The old graph is
    /// returned, so that the caller frees it. If the receiver is dropped, the packet thread frees it.
    ///
    /// # Errors
    /// [`NotReplaced`].
    pub fn replace(&self, graph: Box<Graph<P>>) -> Result<Receiver<Box<Graph<P>>>, NotReplaced<P>> {
        let (answer, answered) = sync_channel(1);
        let command = Command::Replace(graph, Box::new(move |old| drop(answer.send(old))));
        match self.0.push(command) {
            Ok(()) => Ok(answered),
            Err(Command::Replace(graph, _)) => Err(NotReplaced(graph)),
            Err(Command::Call(_)) => unreachable!("a command comes back as it went"),
        }
    }

    /// Calls `ask` on the packet thread between two turns; the result arrives over the channel. `ask` must not block.
    ///
    /// # Errors
    /// [`MailboxFull`].
    pub fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Graph<P>) -> R + Send + 'static,
    ) -> Result<Receiver<R>, MailboxFull> {
        let (answer, answered) = sync_channel(1);
        let call = Command::Call(Box::new(move |graph| drop(answer.send(ask(graph)))));
        self.0.push(call).map(|()| answered).map_err(|_| MailboxFull)
    }

    /// Reads a handler; see [`Graph::read`].
    ///
    /// # Errors
    /// [`MailboxFull`].
    pub fn read(
        &self,
        element: &str,
        handler: &str,
    ) -> Result<Receiver<Result<String, HandlerError>>, MailboxFull> {
        let (element, handler) = (element.to_owned(), handler.to_owned());
        self.ask(move |graph| graph.read(&element, &handler))
    }

    /// Writes a value to a handler; see [`Graph::write`].
    ///
    /// # Errors
    /// [`MailboxFull`].
    pub fn write(
        &self,
        element: &str,
        handler: &str,
        value: &str,
    ) -> Result<Receiver<Result<(), HandlerError>>, MailboxFull> {
        let (element, handler, value) = (element.to_owned(), handler.to_owned(), value.to_owned());
        self.ask(move |graph| graph.write(&element, &handler, &value))
    }
}
