use tokio::runtime::{Builder, Runtime};
use zlib_rs::crc32::crc32;

use super::*;
use crate::observe::Log;
use crate::regular_file::Directory;
use crate::snapshot::{DumpFile, DumpIndex, Dumps, Payload};

/// The permit of one download.
fn permit() -> Permit {
    Arc::new(crate::server::conn::limiter::ConnectionLimiter::new(1, 1))
        .take()
        .unwrap()
}

/// A file of this length in dumps of its own, and its bytes.
struct Scene {
    directory: std::path::PathBuf,
    dump: Arc<Dump>,
    bytes: Vec<u8>,
    runtime: Runtime,
    complaints: Arc<RateLimitedLog>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Scene {
    fn new(name: &str, length: u64) -> Scene {
        let directory = std::env::temp_dir().join(format!("im-body-{name}-{}", std::process::id()));
        std::fs::create_dir_all(directory.join(Dumps::FOLDER)).unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| (at * at % 251) as u8).collect();
        let time = "2026-11-21T12:05:00Z".to_owned();
        let index = DumpIndex {
            generated_at: time.clone(),
            license: String::new(),
            license_url: String::new(),
            credit: String::new(),
            notice: String::new(),
            files: vec![DumpFile {
                file: "big.csv".to_owned(),
                bytes: length,
                sha256: "0".repeat(64),
                modified: time.clone(),
                media_type: "",
            }],
        };
        let text = index.to_json().unwrap();
        crate::durable::replace(&directory.join("dumps-1.json"), &text).unwrap();
        let named = Payload {
            file: "dumps-1.json".to_owned(),
            bytes: text.len() as u64,
            checksum: format!("{:08x}", crc32(0, &text)),
            generated_at: time,
        };
        let published = Directory::open(&directory).unwrap();
        let dumps = Dumps::open(&published, &named).unwrap();
        let dump = dumps.find("big.csv").unwrap();
        crate::durable::replace(&directory.join(dump.file.stored_name()), &bytes).unwrap();
        Scene {
            dump: Arc::clone(dump),
            directory,
            bytes,
            runtime: Builder::new_current_thread().build().unwrap(),
            complaints: Arc::new(RateLimitedLog::new(Log::start(|_| {}).unwrap())),
        }
    }

    fn open(&self, first: u64, last: u64, with_bytes: bool) -> Result<ResponseBody, ApiError> {
        let download = Download {
            source: DownloadSource::Dump(Arc::clone(&self.dump), first..last + 1),
            permit: with_bytes.then(permit),
        };
        self.runtime
            .block_on(async { download.open(&self.complaints).await })
    }

    /// The next piece of a body, if one is left.
    fn next(&self, body: &mut ResponseBody) -> Option<io::Result<Bytes>> {
        match body {
            ResponseBody::Whole(bytes) if bytes.is_empty() => None,
            ResponseBody::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            ResponseBody::Omitted(_) => None,
            ResponseBody::Stream(stream) => {
                let read = self.runtime.block_on(stream.next.as_mut());
                Some(read.map(|(piece, rest)| {
                    let end = ResponseBody::Whole(Bytes::new());
                    *body = rest.map_or(end, ResponseBody::Stream);
                    piece
                }))
            }
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.join(self.dump.file.stored_name())
    }

    /// Descriptors of this process that are open on the file.
    fn descriptors(&self) -> usize {
        let path = self.path();
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        open.filter(|entry| {
            let link = entry.as_ref().unwrap().path();
            std::fs::read_link(link).is_ok_and(|to| to == path)
        })
        .count()
    }
}

#[test]
fn any_part_comes_whole_in_pieces_that_are_announced() {
    let length = 3 * PIECE_BYTES + 17;
    let scene = Scene::new("parts", length);
    let edges = [
        0,
        1,
        PIECE_BYTES - 1,
        PIECE_BYTES,
        PIECE_BYTES + 1,
        2 * PIECE_BYTES,
        length - 1,
    ];
    for first in edges {
        for last in edges.into_iter().filter(|last| first <= *last) {
            let mut body = scene.open(first, last, true).unwrap();
            let wanted = last - first + 1;
            let in_pieces = if wanted > PIECE_BYTES { wanted } else { 0 };
            let streamed = match &body {
                ResponseBody::Stream(_) => body.bytes(),
                _ => 0,
            };
            assert_eq!(streamed, in_pieces);
            assert_eq!(scene.descriptors(), usize::from(in_pieces > 0));
            let mut got = Vec::new();
            while body.bytes() > 0 {
                let left = body.bytes();
                assert_eq!(left, wanted - got.len() as u64);
                let piece = scene.next(&mut body).unwrap().unwrap();
                assert_eq!(piece.len() as u64, left.min(PIECE_BYTES));
                got.extend_from_slice(&piece);
            }
            let (from, to) = (
                usize::try_from(first).unwrap(),
                usize::try_from(last).unwrap(),
            );
            assert!(got == scene.bytes[from..=to], "{first}-{last}");
            assert!(scene.next(&mut body).is_none());
            drop(body);
            assert_eq!(scene.descriptors(), 0);
        }
    }
}

#[test]
fn a_head_opens_the_file_and_reads_none_of_it() {
    let scene = Scene::new("head", 2 * PIECE_BYTES);
    let body = scene.open(0, 2 * PIECE_BYTES - 1, false).unwrap();
    assert_eq!(body.bytes(), 2 * PIECE_BYTES);
    let small = scene.open(0, 9, false).unwrap();
    assert_eq!(small.bytes(), 10);
    drop((body, small));
    assert_eq!(scene.descriptors(), 0);
    std::fs::remove_file(scene.path()).unwrap();
    assert!(scene.open(0, 9, false).is_err());
}

#[test]
fn a_file_that_is_gone_is_damage_unless_other_dumps_are_published_by_now() {
    let scene = Scene::new("superseded", 10);
    std::fs::remove_file(scene.path()).unwrap();
    let manifest = |index: &str| {
        let payload = |file: &str| {
            format!(r#"{{"file":"{file}","bytes":1,"checksum":"0","generatedAt":""}}"#)
        };
        let (live, dumps) = (payload("live-1.snap"), payload(index));
        let text = format!(r#"{{"history":null,"live":{live},"dumps":{dumps}}}"#);
        crate::durable::replace(&scene.directory.join("manifest.json"), text.as_bytes()).unwrap();
    };
    let error = || scene.open(0, 9, true).err().unwrap();
    assert!(matches!(error(), ApiError::Damaged), "without a manifest");
    manifest("dumps-1.json");
    assert!(matches!(error(), ApiError::Damaged));
    assert_eq!(scene.complaints.count(), 2);
    manifest("dumps-2.json");
    assert!(matches!(error(), ApiError::Superseded));
    assert_eq!(scene.complaints.count(), 2, "no damage");
}

#[test]
fn a_file_that_is_cut_short_meanwhile_is_an_error_and_not_an_end() {
    let scene = Scene::new("cut", 4 * PIECE_BYTES);
    let mut body = scene.open(0, 4 * PIECE_BYTES - 1, true).unwrap();
    let file = File::options().write(true).open(scene.path()).unwrap();
    file.set_len(2 * PIECE_BYTES + 5).unwrap();
    let mut next = || scene.next(&mut body).unwrap();
    assert!(next().is_ok() && next().is_ok());
    assert_eq!(next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(
        scene.open(0, 9, true).is_err(),
        "its length is not the one of the index"
    );
}

#[test]
fn a_read_that_waits_for_the_disk_delays_no_other_task() {
    let scene = Scene::new("waits", 2 * PIECE_BYTES);
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    // The one thread that may wait does so until it is released.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || blocked.recv());
    let download = Download {
        source: DownloadSource::Dump(Arc::clone(&scene.dump), 0..10),
        permit: Some(permit()),
    };
    let complaints = Arc::clone(&scene.complaints);
    runtime.block_on(async move {
        let opening = tokio::spawn(async move { download.open(&complaints).await });
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!opening.is_finished());
        release.send(()).unwrap();
        let body = opening.await.unwrap().unwrap();
        assert_eq!(body.bytes(), 10);
    });
}
