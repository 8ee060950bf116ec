//! JSON of the dumps: an array of objects with the columns of the CSV files, one object per line.

use std::io::{self, Write};

use serde::Serialize;

use super::ProfileMembers;
use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile, RowWriter};
use crate::model::{CreatedIn, CreatorSlug, IslandCode};

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

    fn row(&mut self, members: &impl Serialize) -> io::Result<()> {
        self.begin_row();
        super::json(&mut self.rows, members);
        self.end_row()
    }

    fn begin_row(&mut self) {
        let parting: &[u8] = if self.is_empty { b"[\n" } else { b",\n" };
        self.is_empty = false;
        self.rows.extend_from_slice(parting);
    }

    /// Writes the first member of a row.
    fn code(&mut self, code: IslandCode) {
        self.rows.extend_from_slice(b"{\"code\":\"");
        self.rows.extend_from_slice(code.text().as_str().as_bytes());
        self.rows.extend_from_slice(b"\",");
    }

    fn end_row(&mut self) -> io::Result<()> {
        if self.rows.len() >= BUFFER {
            self.out.write_all(&self.rows)?;
            self.rows.clear();
        }
        Ok(())
    }
}

impl<W: Write> RowWriter for DumpJsonWriter<W> {
    fn island(&mut self, island: &Island) -> io::Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            code: String,
            title: &'a str,
            creator: Option<&'a str>,
            created_in: Option<&'a str>,
            tags: &'a [Box<str>],
        }
        self.row(&Members {
            code: island.code.to_string(),
            title: &island.title,
            creator: island.creator.as_ref().map(CreatorSlug::as_str),
            created_in: island.created_in.map(CreatedIn::as_str),
            tags: &island.tags,
        })
    }

    fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        #[derive(Serialize)]
        struct Members<'a> {
            slug: &'a str,
            #[serde(flatten)]
            profile: ProfileMembers<'a>,
        }
        self.row(&Members {
            slug: profile.slug.as_str(),
            profile: profile.into(),
        })
    }

    fn day(&mut self, code: IslandCode, metrics: &Metrics) -> io::Result<()> {
        self.begin_row();
        self.code(code);
        super::metrics(&mut self.rows, metrics);
        self.end_row()
    }

    fn peak(&mut self, code: IslandCode, peak_ccu: Option<u64>) -> io::Result<()> {
        self.begin_row();
        self.code(code);
        self.rows.extend_from_slice(b"\"peakCCU\":");
        super::count(&mut self.rows, peak_ccu);
        self.rows.push(b'}');
        self.end_row()
    }

    fn players(&mut self, code: IslandCode, players: u64) -> io::Result<()> {
        #[derive(Serialize)]
        struct Members {
            code: String,
            players: u64,
        }
        let code = code.to_string();
        self.row(&Members { code, players })
    }

    fn point(&mut self, time: UnixSeconds, players: u64) -> io::Result<()> {
        #[derive(Serialize)]
        struct Members {
            time: i64,
            players: u64,
        }
        let time = time.0;
        self.row(&Members { time, players })
    }
}
