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

use super::api_error::ApiError;
use super::conditions::Part;
use crate::server::room::Place;
use crate::server::upkeep::seldom::Seldom;
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
        complaints: Arc<Seldom>,
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
                    complaints.say(&format!(
                        "{path}: {error} at byte {at}; a download was cut there"
                    ));
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
    state: State,
    /// Its place among the streams that there may be at a time.
    _place: Place,
}

#[derive(Debug)]
enum State {
    /// Nothing is being read; a piece may be there already.
    Resting(Option<Bytes>, PieceReader),
    Reading(JoinHandle<(io::Result<Bytes>, PieceReader)>),
    Ended,
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
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Resting(Some(piece), reader) => {
                    self.left -= piece.len() as u64;
                    self.state = State::Resting(None, reader);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                State::Resting(None, mut reader) if self.left > 0 => {
                    let piece = room(self.left);
                    let reading = spawn_blocking(move || (reader.fill(piece), reader));
                    self.state = State::Reading(reading);
                }
                State::Reading(mut reading) => {
                    let Poll::Ready(outcome) = Pin::new(&mut reading).poll(cx) else {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    };
                    match outcome {
                        Ok((Ok(piece), reader)) => self.state = State::Resting(Some(piece), reader),
                        Ok((Err(error), _)) => return Poll::Ready(Some(Err(error))),
                        Err(stopped) => return Poll::Ready(Some(Err(io::Error::other(stopped)))),
                    }
                }
                State::Resting(None, _) | State::Ended => return Poll::Ready(None),
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
    /// Opens the body and, if it is to be sent, reads the first piece: what fits in one needs neither place
    /// nor descriptor any more.
    pub(crate) async fn open(
        self,
        with_bytes: bool,
        place: Place,
        complaints: &Arc<Seldom>,
    ) -> Result<ResponseBody, ApiError> {
        let bytes = match &self {
            Download::Dump { part, .. } => part.bytes(),
            Download::Body(body) => body.bytes(),
        };
        let piece = room(if with_bytes { bytes } else { 0 });
        let complaints = Arc::clone(complaints);
        let opening = spawn_blocking(move || {
            let mut reader = self.open_reader(complaints)?;
            let first = reader.fill(piece).map_err(|_| ApiError::Damaged)?;
            Ok((first, reader))
        });
        let (first, reader) = opening.await.unwrap_or(Err(ApiError::Damaged))?;
        if first.len() as u64 == bytes {
            return Ok(ResponseBody::Whole(first));
        }
        if !with_bytes {
            return Ok(ResponseBody::Omitted(bytes));
        }
        Ok(ResponseBody::Stream(Box::new(PieceStream {
            left: bytes,
            state: State::Resting(Some(first), reader),
            _place: place,
        })))
    }

    /// Waits for the disk. Errors are in the log, or counted as damage.
    fn open_reader(self, complaints: Arc<Seldom>) -> Result<PieceReader, ApiError> {
        match self {
            Download::Dump { dump, part } => match dump.open() {
                Ok(file) => Ok(PieceReader::Dump {
                    file,
                    at: part.first,
                    dump,
                    complaints,
                }),
                Err(error) => {
                    complaints.say(&format!("{}: {error}", dump.path().display()));
                    Err(if is_for_want_of_descriptors(&error) {
                        ApiError::Busy
                    } else {
                        ApiError::Damaged
                    })
                }
            },
            Download::Body(body) => match body.open() {
                Ok(reader) => Ok(PieceReader::Body(Box::new(reader))),
                Err(_) => Err(ApiError::Damaged),
            },
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
