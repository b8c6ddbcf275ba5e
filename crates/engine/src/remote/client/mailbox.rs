//! Between the thread that reads the socket and one who reads a stream: a queue bounded by credit.

use super::call::Command;
use super::told::Told;
use crate::remote::codec::{End, Response};
use futures_core::Stream;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedSender;

#[derive(Debug, Default)]
struct State {
    items: VecDeque<(Response, i64)>,
    /// What the items cost.
    buffered: i64,
    /// Credit that the server has still.
    granted: i64,
    /// Whether the reader has asked for more credit since the last.
    has_asked: bool,
    is_over: bool,
}

/// The queue of one stream.
#[derive(Debug)]
pub(super) struct Mailbox {
    window: u32,
    state: Mutex<State>,
    waker: AtomicWaker,
}

impl Mailbox {
    pub(super) fn new(window: u32) -> Self {
        Self { window, state: Mutex::default(), waker: AtomicWaker::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins: the credit it begins with.
    pub(super) fn reset(&self) -> u32 {
        self.lock().granted = 0;
        self.grant()
    }

    /// Gives as much credit as there is room for; returns how much.
    pub(super) fn grant(&self) -> u32 {
        let mut state = self.lock();
        let room = i64::from(self.window) - state.buffered - state.granted;
        let more = u32::try_from(room).unwrap_or(0);
        state.granted += i64::from(more);
        state.has_asked = false;
        more
    }

    /// Takes what its credit was spent for. `false`: there was none.
    pub(super) fn spend(&self, cost: i64) -> bool {
        let mut state = self.lock();
        let is_covered = cost == 0 || state.granted > 0;
        state.granted -= cost;
        is_covered
    }

    /// Lets the reader have something, which was paid for by `cost`.
    pub(super) fn put(&self, response: Response, cost: i64) {
        let mut state = self.lock();
        state.is_over |= matches!(response, Response::End { .. });
        state.items.push_back((response, cost));
        state.buffered += cost;
        drop(state);
        self.waker.wake();
    }

    /// Ends the stream behind what is there.
    pub(super) fn end(&self, end: End) {
        self.put(Response::End { end }, 0);
    }
}

/// One who reads a stream.
pub(super) struct Following<T> {
    id: u64,
    mailbox: Arc<Mailbox>,
    commands: UnboundedSender<Command>,
    is_over: bool,
    /// What the reader gets.
    item: PhantomData<fn() -> T>,
}

impl<T> Following<T> {
    pub(super) fn new(id: u64, mailbox: Arc<Mailbox>, commands: UnboundedSender<Command>) -> Self {
        Self { id, mailbox, commands, is_over: false, item: PhantomData }
    }
}

impl<T: Told> Stream for Following<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.mailbox.waker.register(context.waker());
        let mut state = self.mailbox.lock();
        let Some((response, cost)) = state.items.pop_front() else { return Poll::Pending };
        state.buffered -= cost;
        let unused = i64::from(self.mailbox.window) - state.buffered - state.granted;
        let wants_more = !state.is_over && !state.has_asked && unused >= i64::from(self.mailbox.window / 2);
        state.has_asked |= wants_more;
        drop(state);
        if wants_more {
            drop(self.commands.send(Command::Credit(self.id))); // the stream will end if nobody hears this
        }
        self.is_over = matches!(response, Response::End { .. });
        Poll::Ready(T::told(response))
    }
}

impl<T> Drop for Following<T> {
    fn drop(&mut self) {
        drop(self.commands.send(Command::Cancel(self.id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_the_room_that_is_left() {
        let mailbox = Mailbox::new(100);
        assert_eq!((mailbox.reset(), mailbox.grant()), (100, 0));
        assert!(mailbox.spend(130), "the last may cost more than there is");
        mailbox.put(Response::Message { bytes: Arc::from([]) }, 130);
        assert!(!mailbox.spend(1));
        assert_eq!(mailbox.reset(), 0, "a new connection finds no room either");
        mailbox.lock().buffered = 30;
        assert_eq!((mailbox.reset(), mailbox.grant()), (70, 0));
    }
}
