//! Response bodies that are read from a disk: `Download` opens one, and `FileStream` reads its pieces.
//!
//! Threads of the runtime's blocking pool read and inflate dumps and long bodies of the API, so no
//! other connection of the worker waits for a disk. A stream has one piece in memory, and the next
//! one is read when the socket has taken it.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::observe::RateLimitedLog;
use crate::server::conn::context::ResponseBody;
use crate::server::conn::limiter::Permit;
use crate::server::http::api_error::ApiError;
use crate::server::http::conditional::Part;
use crate::snapshot::{Dump, LongBody, LongBodyReader, SnapshotError};

/// Bytes of a piece. Handing a read to another thread costs tens of microseconds, as much as
/// copying a piece.
const PIECE_BYTES: u64 = 128 * 1024;

/// A body that is sent in pieces.
#[derive(Debug)]
pub(crate) struct FileStream {
    /// Bytes that the connection does not have yet.
    left: u64,
    state: StreamState,
}

#[derive(Debug)]
enum StreamState {
    Read(Bytes, Source),
    Idle(Source),
    Reading(JoinHandle<(io::Result<Bytes>, Source)>),
    Failed,
}

impl Body for FileStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.poll_piece(cx)
            .map(|piece| Some(piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl FileStream {
    /// The next piece of those left. After an error the connection is closed, so that the client
    /// notices that bytes are missing.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let (piece, source) = match std::mem::replace(&mut self.state, StreamState::Failed) {
            StreamState::Read(piece, source) => (piece, source),
            StreamState::Failed => return Poll::Ready(Err(io::ErrorKind::Other.into())),
            StreamState::Idle(source) => {
                self.state = StreamState::Reading(source.read(self.left));
                return self.poll_piece(cx);
            }
            StreamState::Reading(mut reading) => {
                let Poll::Ready(done) = Pin::new(&mut reading).poll(cx) else {
                    self.state = StreamState::Reading(reading);
                    return Poll::Pending;
                };
                let (piece, source) = done?;
                (piece?, source)
            }
        };
        self.left -= piece.len() as u64;
        if self.left == 0 {
            return Poll::Ready(Ok(source.last_piece(piece)));
        }
        self.state = StreamState::Idle(source);
        Poll::Ready(Ok(piece))
    }
}

/// The source of a stream, with its permit. A thread that reads for a client which has left keeps
/// the permit until it is done.
#[derive(Debug)]
struct Source {
    reader: PieceReader,
    permit: Permit,
    complaints: Arc<RateLimitedLog>,
}

#[derive(Debug)]
enum PieceReader {
    /// A file of the dumps, read from `at`. Its descriptor is closed with this, whether all was
    /// sent or not.
    Dump {
        file: File,
        at: u64,
        dump: Arc<Dump>,
    },
    Body(Box<LongBodyReader>),
}

impl Source {
    /// Reads the next piece of the bytes left, on a thread that may wait for the disk. Its memory
    /// is allocated here, where it is freed: the allocator keeps memory apart for each thread.
    fn read(mut self, left: u64) -> JoinHandle<(io::Result<Bytes>, Source)> {
        let bytes = usize::try_from(left.min(PIECE_BYTES)).expect("a piece fits in memory");
        let piece = vec![0; bytes];
        spawn_blocking(move || {
            let filled = self.reader.fill(piece);
            let filled = filled.inspect_err(|error| self.complaints.write(&error.to_string()));
            (filled, self)
        })
    }

    /// Attaches the permit to the last piece, which keeps it until it is sent, or copied because it is
    /// short.
    fn last_piece(self, bytes: Bytes) -> Bytes {
        struct LastPiece {
            bytes: Bytes,
            _permit: Permit,
        }
        impl AsRef<[u8]> for LastPiece {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        Bytes::from_owner(LastPiece {
            bytes,
            _permit: self.permit,
        })
    }
}

impl PieceReader {
    /// Fills the next piece. Waits for the disk. The error is a line for the log.
    fn fill(&mut self, mut piece: Vec<u8>) -> io::Result<Bytes> {
        match self {
            PieceReader::Dump { file, at, dump } => {
                file.read_exact_at(&mut piece, *at).map_err(|error| {
                    let path = dump.path();
                    let path = path.display();
                    let problem = format!("{path}: {error} at byte {at}; a download failed");
                    io::Error::new(error.kind(), problem)
                })?;
                *at += piece.len() as u64;
                Ok(piece.into())
            }
            PieceReader::Body(reader) => {
                let filled = reader.fill(piece);
                filled.map_err(|error| io::Error::other(not_sent(&error)))
            }
        }
    }
}

/// A body that must be opened before the head of its response is sent.
#[derive(Clone, Debug)]
pub(crate) enum Download {
    Dump(Arc<Dump>, Part),
    Body(LongBody),
}

impl Download {
    /// Opens the body and reads the first piece. A body of one piece needs no descriptor from then
    /// on. Without a permit, as for HEAD, nothing is read: a dump is opened to find out whether it
    /// can be. Errors are logged and counted.
    pub(crate) async fn open(
        self,
        permit: Option<Permit>,
        complaints: &Arc<RateLimitedLog>,
    ) -> Result<ResponseBody, ApiError> {
        let (bytes, reader) = match self {
            Download::Body(body) if permit.is_none() => {
                return Ok(ResponseBody::Omitted(Some(body.bytes())));
            }
            Download::Body(body) => (body.bytes(), open_long(body, complaints).await?),
            Download::Dump(dump, part) => {
                let reader = open_dump(dump, part.first, Arc::clone(complaints)).await?;
                (part.bytes(), reader)
            }
        };
        let Some(permit) = permit else {
            return Ok(ResponseBody::Omitted(Some(bytes)));
        };
        let source = Source {
            reader,
            permit,
            complaints: Arc::clone(complaints),
        };
        let (first, source) = source.read(bytes).await.map_err(|_| ApiError::Damaged)?;
        let first = first.map_err(|_| ApiError::Damaged)?;
        if first.len() as u64 == bytes {
            return Ok(ResponseBody::Whole(source.last_piece(first)));
        }
        Ok(ResponseBody::Stream(Box::pin(FileStream {
            left: bytes,
            state: StreamState::Read(first, source),
        })))
    }
}

async fn open_dump(
    dump: Arc<Dump>,
    at: u64,
    complaints: Arc<RateLimitedLog>,
) -> Result<PieceReader, ApiError> {
    /// Too many files are open: in the whole system, or in this process.
    const OUT_OF_DESCRIPTORS: [Option<i32>; 2] = [Some(23), Some(24)];
    let opened = spawn_blocking(move || match dump.open() {
        Ok(file) => Ok(PieceReader::Dump { file, at, dump }),
        Err(error) => {
            complaints.write(&format!("{}: {error}", dump.path().display()));
            if OUT_OF_DESCRIPTORS.contains(&error.raw_os_error()) {
                Err(ApiError::Busy)
            } else {
                Err(ApiError::Damaged)
            }
        }
    });
    opened.await.unwrap_or(Err(ApiError::Damaged))
}

/// Opens a long body. Each step of verifying it queues behind the pieces of other bodies, and none
/// follows when the client has left.
async fn open_long(body: LongBody, complaints: &RateLimitedLog) -> Result<PieceReader, ApiError> {
    let mut reader = Box::new(body.reader());
    loop {
        let step = spawn_blocking(move || (reader.verify_step(), reader)).await;
        let (step, stepped) = step.map_err(|_| ApiError::Damaged)?;
        reader = stepped;
        let step = step.inspect_err(|error| complaints.write(&not_sent(error)));
        if step.map_err(|_| ApiError::Damaged)? {
            return Ok(PieceReader::Body(reader));
        }
    }
}

/// The log line of a body that is damaged or cannot be read.
pub(crate) fn not_sent(error: &SnapshotError) -> String {
    format!("a response could not be sent: {error}")
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
