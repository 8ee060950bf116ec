//! JSON of the dumps: an array of objects with the columns of the CSV files, one object per line.

use std::io::{self, Write};

use super::json::Object;
use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile, RowWriter};
use crate::model::IslandCode;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

/// A JSON file that is written row by row.
pub(crate) struct DumpJsonWriter<W> {
    out: W,
    /// Buffered rows.
    rows: Vec<u8>,
    is_empty: bool,
}

impl<W: Write> DumpJsonWriter<W> {
    pub(crate) fn begin(out: W) -> DumpJsonWriter<W> {
        DumpJsonWriter {
            out,
            rows: Vec::with_capacity(BUFFER + BUFFER / 4),
            is_empty: true,
        }
    }

    /// Closes the array and flushes the buffer.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let end: &[u8] = if self.is_empty { b"[]\n" } else { b"\n]\n" };
        self.rows.extend_from_slice(end);
        self.out.write_all(&self.rows)
    }

    fn row(&mut self, members: impl FnOnce(Object<'_>) -> Object<'_>) -> io::Result<()> {
        let separator = if self.is_empty { b"[\n" } else { b",\n" };
        self.is_empty = false;
        self.rows.extend_from_slice(separator);
        members(Object::new(&mut self.rows)).end();
        if self.rows.len() >= BUFFER {
            self.out.write_all(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }
}

impl<W: Write> RowWriter for DumpJsonWriter<W> {
    fn island(&mut self, island: &Island) -> io::Result<()> {
        self.row(|row| row.island(island).member("tags", &island.tags))
    }

    fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        let slug = profile.slug.as_str();
        self.row(|row| row.member("slug", slug).profile(Some(profile)))
    }

    fn day(&mut self, code: IslandCode, metrics: &Metrics) -> io::Result<()> {
        self.row(|row| row.member("code", code.text().as_str()).metrics(metrics))
    }

    fn peak(&mut self, code: IslandCode, peak_ccu: Option<u64>) -> io::Result<()> {
        let code = code.text();
        self.row(|row| {
            row.member("code", code.as_str())
                .member("peakCCU", peak_ccu)
        })
    }

    fn players(&mut self, code: IslandCode, players: u64) -> io::Result<()> {
        let code = code.text();
        self.row(|row| row.member("code", code.as_str()).member("players", players))
    }

    fn point(&mut self, time: UnixSeconds, players: u64) -> io::Result<()> {
        self.row(|row| row.member("time", time.0).member("players", players))
    }
}
