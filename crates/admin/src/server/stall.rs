//! A connection whose peer must take what is sent to it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails with [`io::ErrorKind::TimedOut`] once writing made no progress for a while. Reading is bounded by the HTTP
/// library's own clocks.
pub(super) struct Stall<T> {
    io: T,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    pub(super) fn new(io: T, patience: Duration) -> Self {
        Self { io, patience, waiting: None }
    }

    /// Passes on what the stream said, unless it has been waiting for too long.
    fn judge<R>(&mut self, cx: &mut Context<'_>, said: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if said.is_ready() {
            self.waiting = None;
            return said;
        }
        let patience = self.patience;
        let clock = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(clock.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.io).poll_write(cx, buf);
        self.judge(cx, said)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.judge(cx, said)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.io).poll_flush(cx);
        self.judge(cx, said)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.io).poll_shutdown(cx);
        self.judge(cx, said)
    }
}
