//! The socket of a connection, with its clocks.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ConnectionClock;

/// Which directions are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Both: what is read and written is the client's own.
    Both,
    /// What is read out of TLS. Its own messages are no part of a request.
    Reads,
    /// What is written below TLS: what the socket takes, and not what waits in a buffer for it.
    Writes,
}

/// A socket that tells its connection's clocks what moves.
#[derive(Debug)]
pub(crate) struct TimedStream<S> {
    pub(crate) stream: S,
    pub(crate) clock: Arc<ConnectionClock>,
    pub(crate) side: Side,
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.side != Side::Writes && buffer.filled().len() > before {
            self.clock.read(Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> TimedStream<S> {
    fn told(&self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        match &written {
            _ if self.side == Side::Reads => {}
            Poll::Ready(Ok(bytes)) => self.clock.wrote(*bytes, Instant::now()),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.clock.blocked(Instant::now()),
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.told(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.told(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
