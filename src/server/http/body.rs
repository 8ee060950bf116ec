//! Response bodies that are read from a disk: `Download` opens one, and a `Source` reads its pieces.
//!
//! Threads of the runtime's blocking pool read and inflate dumps and long bodies of the API, so no
//! other connection of the worker waits for a disk. A stream has one piece in memory, and the next
//! one is read when the socket has taken it.

use std::fs::File;
use std::future;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::observe::RateLimitedLog;
use crate::server::conn::context::{BodyStream, ResponseBody};
use crate::server::conn::limiter::Permit;
use crate::server::http::api_error::ApiError;
use crate::snapshot::{Dump, SnapshotError, StoredBody};

/// Bytes of a piece. Handing a read to another thread costs tens of microseconds, as much as
/// copying a piece.
const PIECE_BYTES: u64 = 128 * 1024;

/// The source of a stream, with its permit. A thread that reads for a client which has left keeps
/// the permit until it is done.
struct Source {
    reader: Reader,
    permit: Permit,
    complaints: Arc<RateLimitedLog>,
}

/// Fills the next piece, and waits for the disk. An error is a line for the log. The descriptor of a file is closed
/// with this, whether all was sent or not.
type Reader = Box<dyn FnMut(Vec<u8>) -> io::Result<Bytes> + Send>;

impl Source {
    /// Reads the next piece of the bytes left, on a thread that may wait for the disk. Its memory
    /// is allocated here, where it is freed: the allocator keeps memory apart for each thread.
    async fn read(mut self, left: u64) -> io::Result<(Bytes, Source)> {
        let bytes = usize::try_from(left.min(PIECE_BYTES)).expect("a piece fits in memory");
        let piece = vec![0; bytes];
        let read = spawn_blocking(move || {
            let filled = (self.reader)(piece);
            let filled = filled.inspect_err(|error| self.complaints.write(&error.to_string()))?;
            Ok((filled, self))
        });
        read.await?
    }

    /// Returns the rest of a body, of the bytes left.
    fn stream(self, left: u64) -> BodyStream {
        let next = async move {
            let (piece, source) = self.read(left).await?;
            let left = left - piece.len() as u64;
            Ok(if left == 0 {
                (source.last_piece(piece), None)
            } else {
                (piece, Some(source.stream(left)))
            })
        };
        BodyStream {
            left,
            next: Box::pin(next),
        }
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

/// A body that must be opened before the head of its response is sent.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) source: DownloadSource,
    /// The permit for sending it; `None` for HEAD of a dump.
    pub(crate) permit: Option<Permit>,
}

#[derive(Debug)]
pub(crate) enum DownloadSource {
    Dump(Arc<Dump>, Range<u64>),
    Body(StoredBody),
}

impl Download {
    /// Opens the body and reads the first piece. A body of one piece needs no descriptor from then
    /// on. Without a permit nothing is read: a dump is opened to find out whether it can be. Errors are
    /// logged and counted.
    pub(crate) async fn open(
        self,
        complaints: &Arc<RateLimitedLog>,
    ) -> Result<ResponseBody, ApiError> {
        let Download { source, permit } = self;
        let (bytes, reader) = match source {
            DownloadSource::Body(body) => (body.bytes(), body_reader(body)),
            DownloadSource::Dump(dump, part) => {
                let reader = open_dump(dump, part.start, Arc::clone(complaints)).await?;
                (part.end - part.start, reader)
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
        if first.len() as u64 == bytes {
            return Ok(ResponseBody::Whole(source.last_piece(first)));
        }
        let rest = source.stream(bytes - first.len() as u64);
        Ok(ResponseBody::Stream(BodyStream {
            left: bytes,
            next: Box::pin(future::ready(Ok((first, Some(rest))))),
        }))
    }
}

async fn open_dump(
    dump: Arc<Dump>,
    at: u64,
    complaints: Arc<RateLimitedLog>,
) -> Result<Reader, ApiError> {
    /// Too many files are open: in the whole system, or in this process.
    const OUT_OF_DESCRIPTORS: [Option<i32>; 2] = [Some(23), Some(24)];
    let opened = spawn_blocking(move || match dump.open() {
        Ok(file) => Ok(dump_reader(file, at, dump)),
        // Later publishes have removed the file, and the server has not loaded them yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound && dump.is_superseded() => {
            Err(ApiError::Superseded)
        }
        Err(error) => {
            complaints.write(&format!("{}: {error}", dump.place()));
            if OUT_OF_DESCRIPTORS.contains(&error.raw_os_error()) {
                Err(ApiError::Busy)
            } else {
                Err(ApiError::Damaged)
            }
        }
    });
    opened.await.unwrap_or(Err(ApiError::Damaged))
}

/// Reads a file of the dumps from `at` on.
fn dump_reader(file: File, mut at: u64, dump: Arc<Dump>) -> Reader {
    Box::new(move |mut piece| {
        file.read_exact_at(&mut piece, at).map_err(|error| {
            let place = dump.place();
            let problem = format!("{place}: {error} at byte {at}; a download failed");
            io::Error::new(error.kind(), problem)
        })?;
        at += piece.len() as u64;
        Ok(piece.into())
    })
}

fn body_reader(body: StoredBody) -> Reader {
    let mut reader = body.reader();
    Box::new(move |piece| {
        let filled = reader.fill(piece);
        filled.map_err(|error| io::Error::other(not_sent(&error)))
    })
}

/// The log line of a body that is damaged or cannot be read.
pub(crate) fn not_sent(error: &SnapshotError) -> String {
    format!("a response could not be sent: {error}")
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
