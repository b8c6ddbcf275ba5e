//! A body that comes piece by piece from a task.

use hyper::body::{Body, Bytes, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// What a channel brings, each thing as a piece. An error cuts the answer off, so that its reader sees that it is not whole.
pub(super) struct ChannelBody<T> {
    channel: Receiver<T>,
    piece: fn(T) -> io::Result<Bytes>,
}

impl<T> ChannelBody<T> {
    /// Of this channel, until nobody sends any more.
    pub(super) fn new(channel: Receiver<T>, piece: fn(T) -> io::Result<Bytes>) -> Self {
        Self { channel, piece }
    }
}

impl<T> Body for ChannelBody<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = ready!(self.channel.poll_recv(cx));
        Poll::Ready(next.map(|thing| (self.piece)(thing).map(Frame::data)))
    }
}
