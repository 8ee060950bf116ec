//! The body that hyper sends behind a head: bytes in memory, or a stream of pieces.
//!
//! A dump or a long body of the API is read, and inflated, by threads of the runtime that may wait for a
//! disk, so that no other connection of the worker waits for it. A stream holds one piece in memory, and
//! has the next one read when the client has taken nearly all of it.

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
use crate::server::conn::limiter::Place;
use crate::server::http::api_error::ApiError;
use crate::server::http::conditional::Part;
use crate::snapshot::{Dump, LongBody, LongBodyReader};

/// Bytes that are read and sent at once. Waking a reading thread and being woken by it costs
/// tens of microseconds, as long as it takes to copy so much.
const PIECE_BYTES: u64 = 128 * 1024;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Whole(Bytes),
    /// None, with the length that it would have: for HEAD.
    Omitted(u64),
    Stream(Box<PieceStream>),
}

impl ResponseBody {
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            ResponseBody::Whole(bytes) => bytes.len() as u64,
            ResponseBody::Omitted(bytes) => *bytes,
            ResponseBody::Stream(stream) => stream.left,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            ResponseBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            ResponseBody::Omitted(_) => Poll::Ready(None),
            ResponseBody::Stream(stream) => stream.poll_next(cx),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.bytes() == 0
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes())
    }
}

/// The source of a stream.
#[derive(Debug)]
enum PieceReader {
    /// A file of the dumps. Its descriptor is closed with this, whether all was sent or not.
    Dump {
        file: File,
        /// The place in the file of the next byte.
        at: u64,
        dump: Arc<Dump>,
        complaints: Arc<RateLimitedLog>,
    },
    Body(Box<LongBodyReader>),
}

impl PieceReader {
    /// Fills the next piece. Waits for the disk.
    fn fill(&mut self, piece: Vec<u8>) -> io::Result<Bytes> {
        match self {
            PieceReader::Dump {
                file,
                at,
                dump,
                complaints,
            } => {
                let read = read(file, *at, piece).inspect_err(|error| {
                    let path = dump.path().display();
                    complaints.write(&format!("{path}: {error} at byte {at}; a download failed"));
                })?;
                *at += read.len() as u64;
                Ok(read)
            }
            PieceReader::Body(reader) => reader.fill(piece).map_err(io::Error::other),
        }
    }
}

/// A body that is being sent in pieces.
#[derive(Debug)]
pub(crate) struct PieceStream {
    /// Bytes that hyper does not have yet.
    left: u64,
    state: StreamState,
}

/// A reader, with its place among the downloads that there may be at a time. A thread that reads for a client
/// which has gone away keeps the place until it is done.
#[derive(Debug)]
struct Source {
    reader: PieceReader,
    place: Place,
}

#[derive(Debug)]
enum StreamState {
    /// Nothing is being read; a piece may be there already.
    Idle(Option<Bytes>, Source),
    Reading(JoinHandle<(io::Result<Bytes>, Source)>),
    Ended,
}

/// A piece behind which none follows: it keeps the place until it is sent.
struct LastPiece {
    bytes: Bytes,
    _place: Place,
}

/// The last piece of a download, which keeps its place.
fn with_place(bytes: Bytes, place: Place) -> Bytes {
    Bytes::from_owner(LastPiece {
        bytes,
        _place: place,
    })
}

impl AsRef<[u8]> for LastPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PieceStream {
    /// Bytes that hyper does not have yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece. After an error hyper cuts the connection, so that the client sees that bytes
    /// are missing.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            match std::mem::replace(&mut self.state, StreamState::Ended) {
                StreamState::Idle(Some(mut piece), source) => {
                    self.left -= piece.len() as u64;
                    if self.left == 0 {
                        piece = with_place(piece, source.place);
                    } else {
                        self.state = StreamState::Idle(None, source);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                StreamState::Idle(None, mut source) if self.left > 0 => {
                    let piece = room(self.left);
                    let reading = spawn_blocking(move || (source.reader.fill(piece), source));
                    self.state = StreamState::Reading(reading);
                }
                StreamState::Reading(mut reading) => {
                    let Poll::Ready(outcome) = Pin::new(&mut reading).poll(cx) else {
                        self.state = StreamState::Reading(reading);
                        return Poll::Pending;
                    };
                    match outcome {
                        Ok((Ok(piece), source)) => {
                            self.state = StreamState::Idle(Some(piece), source);
                        }
                        Ok((Err(error), _)) => return Poll::Ready(Some(Err(error))),
                        Err(stopped) => return Poll::Ready(Some(Err(io::Error::other(stopped)))),
                    }
                }
                StreamState::Idle(None, _) | StreamState::Ended => return Poll::Ready(None),
            }
        }
    }
}

/// Memory for the next piece of what is left. It is taken where it will be given back: the allocator keeps
/// memory apart for each thread.
fn room(left: u64) -> Vec<u8> {
    vec![0; usize::try_from(left.min(PIECE_BYTES)).expect("a piece fits in memory")]
}

/// Fills `piece` from a file. Waits for the disk.
fn read(file: &File, at: u64, mut piece: Vec<u8>) -> io::Result<Bytes> {
    file.read_exact_at(&mut piece, at)?;
    Ok(piece.into())
}

/// A body to open before its response can be sent.
#[derive(Clone, Debug)]
pub(crate) enum Download {
    /// A part of a dump.
    Dump { dump: Arc<Dump>, part: Part },
    /// A long body of the API.
    Body(LongBody),
}

impl Download {
    /// Opens the body and reads the first piece. A body that fits in one needs no descriptor any more.
    /// Errors are in the log, or counted as damage.
    pub(crate) async fn open(
        self,
        place: Place,
        complaints: &Arc<RateLimitedLog>,
    ) -> Result<ResponseBody, ApiError> {
        let bytes = match &self {
            Download::Dump { part, .. } => part.bytes(),
            Download::Body(body) => body.bytes(),
        };
        let reader = match self {
            Download::Dump { dump, part } => open_dump(dump, part, Arc::clone(complaints)).await?,
            Download::Body(body) => open_long(body).await?,
        };
        let mut source = Source { reader, place };
        let piece = room(bytes);
        let reading = run_blocking(move || (source.reader.fill(piece), source));
        let (first, source) = reading.await?;
        let first = first.map_err(|_| ApiError::Damaged)?;
        if first.len() as u64 == bytes {
            let last = with_place(first, source.place);
            return Ok(ResponseBody::Whole(last));
        }
        Ok(ResponseBody::Stream(Box::new(PieceStream {
            left: bytes,
            state: StreamState::Idle(Some(first), source),
        })))
    }

    /// The response to HEAD: a dump is opened, which shows whether it can be, and nothing is read.
    pub(crate) async fn head(
        self,
        complaints: &Arc<RateLimitedLog>,
    ) -> Result<ResponseBody, ApiError> {
        match self {
            Download::Dump { dump, part } => {
                let bytes = part.bytes();
                open_dump(dump, part, Arc::clone(complaints)).await?;
                Ok(ResponseBody::Omitted(bytes))
            }
            Download::Body(body) => Ok(ResponseBody::Omitted(body.bytes())),
        }
    }
}

/// Runs something that waits for the disk, or takes long, on a thread for such work.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    spawn_blocking(work).await.map_err(|_| ApiError::Damaged)
}

async fn open_dump(
    dump: Arc<Dump>,
    part: Part,
    complaints: Arc<RateLimitedLog>,
) -> Result<PieceReader, ApiError> {
    run_blocking(move || match dump.open() {
        Ok(file) => Ok(PieceReader::Dump {
            file,
            at: part.first,
            dump,
            complaints,
        }),
        Err(error) => {
            complaints.write(&format!("{}: {error}", dump.path().display()));
            Err(if is_for_want_of_descriptors(&error) {
                ApiError::Busy
            } else {
                ApiError::Damaged
            })
        }
    })
    .await?
}

/// Opens a long body. Each step of verifying it queues behind the pieces of other bodies, and none follows
/// when the client has gone away.
async fn open_long(body: LongBody) -> Result<PieceReader, ApiError> {
    let mut reader = Box::new(body.reader());
    loop {
        let stepping = run_blocking(move || (reader.verify_step(), reader));
        let (step, stepped) = stepping.await?;
        reader = stepped;
        if step.map_err(|_| ApiError::Damaged)? {
            return Ok(PieceReader::Body(reader));
        }
    }
}

/// Whether a file could not be opened since too many are open, here or in the whole system.
fn is_for_want_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
