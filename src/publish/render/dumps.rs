//! The JSON of the dumps: an array of objects with the columns of the CSV files, one to a line.

use std::io::{self, Write};

use serde::Serialize;

use super::{MetricMembers, ProfileMembers};
use crate::calendar::UnixSeconds;
use crate::dataset::{Island, Metrics, Profile, RowFile};
use crate::model::{CreatedIn, CreatorSlug, IslandCode};

/// A JSON file being written, row by row.
pub(crate) struct JsonFile<W> {
    out: W,
    row: Vec<u8>,
    is_empty: bool,
}

impl<W: Write> JsonFile<W> {
    pub(crate) fn begin(out: W) -> JsonFile<W> {
        JsonFile {
            out,
            row: Vec::new(),
            is_empty: true,
        }
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let end: &[u8] = if self.is_empty { b"[]\n" } else { b"\n]\n" };
        self.out.write_all(end)
    }

    fn row(&mut self, members: &impl Serialize) -> io::Result<()> {
        self.begin_row();
        super::json(&mut self.row, members);
        self.out.write_all(&self.row)
    }

    fn begin_row(&mut self) {
        let parting: &[u8] = if self.is_empty { b"[\n" } else { b",\n" };
        self.is_empty = false;
        self.row.clear();
        self.row.extend_from_slice(parting);
    }
}

impl<W: Write> RowFile for JsonFile<W> {
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
        #[derive(Serialize)]
        struct Code {
            code: String,
        }
        self.begin_row();
        let code = code.to_string();
        super::joined(&mut self.row, &Code { code }, &MetricMembers::from(metrics));
        self.out.write_all(&self.row)
    }

    fn peak(&mut self, code: IslandCode, peak_ccu: Option<u64>) -> io::Result<()> {
        #[derive(Serialize)]
        struct Members {
            code: String,
            #[serde(rename = "peakCCU")]
            peak_ccu: Option<u64>,
        }
        self.row(&Members {
            code: code.to_string(),
            peak_ccu,
        })
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
