//! The stream of a connection, which reports reads and writes to the clock of the connection.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ConnectionClock;

/// Which directions of a stream are reported to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Both: without TLS, all bytes belong to requests and responses.
    Both,
    /// Reads only, for the stream above TLS. The messages of TLS itself are not part of a request.
    Reads,
    /// Writes only, for the stream below TLS. They count what the socket takes, and not what waits in a buffer for it.
    Writes,
}

/// A stream that reports reads and writes to the clock of its connection.
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
    fn record_write(&self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
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
        self.record_write(written)
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
        self.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
