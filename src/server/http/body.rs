//! What hyper sends behind a head: bytes that are there, or a file piece by piece.
//!
//! Files are opened and read by threads of the runtime that may wait for a disk: whoever waits for one
//! keeps no other connection of the worker waiting. A download holds one piece of its file in memory,
//! from when the client has taken nearly all of the piece before it.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use super::conditions::Part;
use crate::server::room::Place;
use crate::server::upkeep::seldom::Seldom;
use crate::snapshot::Dump;

/// Bytes of a file that are read and sent at once. Waking a reading thread and being woken by it costs
/// tens of microseconds, as long as it takes to copy so much.
const PIECE_BYTES: u64 = 128 * 1024;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Whole(Bytes),
    Pieces(Box<Pieces>),
}

impl Outgoing {
    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Outgoing::Whole(bytes) => bytes.len() as u64,
            Outgoing::Pieces(pieces) => pieces.left,
        }
    }

    /// How many bytes come in pieces, of which hyper writes the first without knowing the others.
    pub(crate) fn bytes_in_pieces(&self) -> u64 {
        match self {
            Outgoing::Whole(_) => 0,
            Outgoing::Pieces(pieces) => pieces.left,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Outgoing::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Pieces(pieces) => pieces.poll_next(cx),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(bytes) => bytes.is_empty(),
            Outgoing::Pieces(pieces) => pieces.left == 0,
        }
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes())
    }
}

/// A file that is being sent. Its descriptor is closed with this, whether all was sent or not.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: Arc<File>,
    /// The place in the file of what was not sent yet.
    at: u64,
    left: u64,
    read: Option<Bytes>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    dump: Arc<Dump>,
    complaints: Arc<Seldom>,
    /// Its place among the files that may be open.
    _place: Place,
}

impl Pieces {
    /// The next piece. After an error hyper cuts the connection, so that the client sees that bytes
    /// are missing.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = ready!(self.poll_read(cx));
        match &piece {
            Ok(bytes) => {
                self.at += bytes.len() as u64;
                self.left -= bytes.len() as u64;
            }
            Err(error) => {
                let (path, at) = (self.dump.path().display(), self.at);
                self.complaints.say(&format!(
                    "{path}: {error} at byte {at}; a download was cut there"
                ));
            }
        }
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(piece) = self.read.take() {
            return Poll::Ready(Ok(piece));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let (file, at) = (Arc::clone(&self.file), self.at);
            let room = room(self.left);
            spawn_blocking(move || read(&file, at, room))
        });
        let outcome = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(outcome.unwrap_or_else(|stopped| Err(io::Error::other(stopped))))
    }
}

/// Room for the next piece of what is left. Taken where it will be given back: the allocator keeps memory
/// apart for each thread.
fn room(left: u64) -> Vec<u8> {
    vec![0; usize::try_from(left.min(PIECE_BYTES)).expect("a piece fits in memory")]
}

/// Fills `piece` from a file. Waits for the disk.
fn read(file: &File, at: u64, mut piece: Vec<u8>) -> io::Result<Bytes> {
    file.read_exact_at(&mut piece, at)?;
    Ok(piece.into())
}

/// A part of a dump that is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Download {
    pub(crate) dump: Arc<Dump>,
    pub(crate) part: Part,
}

impl Download {
    /// Opens the file and, if it is to be sent, reads the first piece: what fits in one needs no
    /// descriptor any more.
    pub(crate) async fn open(
        self,
        with_bytes: bool,
        place: Place,
        complaints: &Arc<Seldom>,
    ) -> io::Result<Outgoing> {
        let Download { dump, part } = self;
        let wanted = Arc::clone(&dump);
        let room = room(if with_bytes { part.bytes() } else { 0 });
        let opening = spawn_blocking(move || {
            let file = wanted.open()?;
            let first = read(&file, part.first, room)?;
            Ok((file, first))
        });
        let outcome = opening
            .await
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        let complain = |error: &io::Error| {
            complaints.say(&format!("{}: {error}", dump.path().display()));
        };
        let (file, first) = outcome.inspect_err(complain)?;
        if first.len() as u64 == part.bytes() {
            return Ok(Outgoing::Whole(first));
        }
        Ok(Outgoing::Pieces(Box::new(Pieces {
            file: Arc::new(file),
            at: part.first,
            left: part.bytes(),
            read: with_bytes.then_some(first),
            reading: None,
            dump,
            complaints: Arc::clone(complaints),
            _place: place,
        })))
    }
}

/// Whether a file could not be opened since too many are open, here or in the whole system.
pub(crate) fn is_for_want_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
