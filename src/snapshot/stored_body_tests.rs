//! Stored bodies, compared with the bytes that they were made of.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::snapshot::body::Compressor;
use crate::snapshot::format::EXPANSION_MAX;
use zlib_rs::crc32::crc32;

/// Bytes in front of the body, so that its offset is not 0.
const OFFSET: u64 = 13;

/// A body in a file of its own, which can be written to.
struct Scene {
    file: Arc<(File, PathBuf)>,
    sent: Vec<u8>,
    body: StoredBody,
}

impl Scene {
    /// A body with a gzip form, unless `packed` is empty, of which one form is sent.
    fn new(plain: Vec<u8>, packed: Vec<u8>, gzip: bool) -> Scene {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("im-long-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let stored = if packed.is_empty() { &plain } else { &packed };
        file.write_all_at(stored, OFFSET).unwrap();
        let file = Arc::new((file, path));
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let body = BodyRef {
            offset: OFFSET,
            plain_bytes: length(&plain),
            gzip_bytes: length(&packed),
            plain_crc: crc32(0, &plain),
            gzip_crc: crc32(0, &packed),
        };
        Scene {
            body: StoredBody {
                storage: Storage::File(Arc::clone(&file)),
                body,
                gzip,
            },
            file,
            sent: if gzip { packed } else { plain },
        }
    }

    fn stored_bytes(&self) -> u64 {
        let body = self.body.body;
        body.bytes(body.has_gzip()).into()
    }

    /// Flips a bit of the stored form.
    fn damage(&self, at: u64) {
        let mut byte = [0];
        self.file.0.read_exact_at(&mut byte, OFFSET + at).unwrap();
        self.file
            .0
            .write_all_at(&[byte[0] ^ 16], OFFSET + at)
            .unwrap();
    }
}

/// Text that gzip makes a third of.
fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 20);
    let mut number = 1_u64;
    while text.len() < bytes {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        text.extend_from_slice((number >> 40).to_string().as_bytes());
    }
    text.truncate(bytes);
    text
}

/// Reads all that is left, in pieces of that many bytes.
fn read_all(reader: &mut BodyReader, piece: usize) -> Result<Vec<u8>, SnapshotError> {
    let mut all = Vec::new();
    while reader.left() > 0 {
        let bytes = usize::try_from(reader.left()).unwrap().min(piece);
        all.extend_from_slice(&reader.fill(vec![0; bytes])?);
    }
    Ok(all)
}

/// Each way of storing and sending a body.
fn scenes(bytes: usize) -> [Scene; 3] {
    let (plain, packed) = (text(bytes), Compressor::default().gzip(&text(bytes)));
    [
        Scene::new(plain.clone(), packed.clone(), false),
        Scene::new(plain.clone(), packed, true),
        Scene::new(plain, Vec::new(), false),
    ]
}

#[test]
fn pieces_of_any_length_make_up_the_body() {
    for bytes in [300, READ_BYTES, 5 * READ_BYTES + 17] {
        for scene in scenes(bytes) {
            for piece in [bytes, bytes / 3, READ_BYTES, 1000, 1 + bytes / 100] {
                let mut reader = scene.body.clone().reader();
                assert_eq!(reader.left(), scene.sent.len() as u64);
                let all = read_all(&mut reader, piece).unwrap();
                assert!(all == scene.sent, "{bytes} bytes in pieces of {piece}");
            }
            assert!(scene.body.read().unwrap() == scene.sent);
        }
    }
}

#[test]
fn a_body_whose_stored_form_is_damaged_is_never_read_whole() {
    for bytes in [300, 3 * READ_BYTES] {
        for scene in scenes(bytes) {
            let stored = scene.stored_bytes();
            // An identity form does not depend on gzip's header and trailer, nor on unused bits.
            let is_inflated = !scene.body.gzip && scene.body.body.has_gzip();
            let step = usize::try_from(1 + stored / 100).unwrap();
            for at in (0..stored).step_by(step).chain([stored - 1]) {
                scene.damage(at);
                for piece in [1000, bytes] {
                    let read = read_all(&mut scene.body.clone().reader(), piece);
                    let is_same = |all: Vec<u8>| is_inflated && all == scene.sent;
                    assert!(read.ok().is_none_or(is_same), "byte {at}");
                }
                scene.damage(at);
            }
            assert!(scene.body.read().is_ok());
        }
    }
}

#[test]
fn a_form_inflates_to_its_body_and_to_no_other_length() {
    arbtest::arbtest(|u| {
        let unit: Vec<u8> = u.arbitrary()?;
        let plain = unit.repeat(u.int_in_range(0..=20_000)?);
        let packed = Compressor::default().gzip(&plain);
        if packed.len() >= plain.len() {
            return Ok(());
        }
        assert!(plain.len() as u64 <= packed.len() as u64 * EXPANSION_MAX);
        let mut body = Scene::new(plain.clone(), packed, false).body;
        assert_eq!(body.clone().read().unwrap(), plain);
        body.body.plain_bytes += 1;
        assert!(body.clone().read().is_err());
        body.body.plain_bytes -= 2;
        assert!(body.clone().read().is_err());
        Ok(())
    });
}

#[test]
fn a_body_damaged_while_it_is_read_is_never_sent_whole() {
    for scene in scenes(6 * READ_BYTES) {
        let stored = scene.stored_bytes();
        // Behind what has been read, and before gzip's own trailer, which is not a part of the
        // body.
        for at in [stored - 520, stored / 4 * 3] {
            let mut reader = scene.body.clone().reader();
            let first = reader.fill(vec![0; 10]).unwrap();
            assert_eq!(first, scene.sent[..10]);
            scene.damage(at);
            assert!(read_all(&mut reader, 10_000).is_err(), "byte {at}");
            scene.damage(at);
        }
        let mut reader = scene.body.clone().reader();
        scene.file.0.set_len(OFFSET + stored / 2).unwrap();
        assert!(read_all(&mut reader, 10_000).is_err(), "cut short");
    }
}
