//! Synthetic datasets of any size, published to a temporary directory and opened.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use island_metrics::calendar::{UnixSeconds, UtcDay};
use island_metrics::dataset::{Catalogue, DatasetReader, Files, Island, SyntheticSpec, synthesize};
use island_metrics::durable;
use island_metrics::model::{CreatedIn, CreatorSlug, fold};
use island_metrics::publish::{PublishOptions, publish};
use island_metrics::site::SiteSettings;
use island_metrics::snapshot::{History, Snapshot, Storage};

use crate::common::process::Scratch;

/// 2026-11-20, and noon of the day after.
const LAST_DAY: UtcDay = UtcDay(20_777);
const PUBLISHED: UnixSeconds = UnixSeconds(1_795_262_700);

/// The published islands, and values for queries.
pub(crate) struct World {
    pub(crate) islands: u32,
    /// The history alone, and a snapshot with caches of size zero, so that each page is rendered.
    pub(crate) history: Arc<History>,
    pub(crate) snapshot: Snapshot,
    /// Time to open the payload.
    pub(crate) opened: Duration,
    /// The folded titles in one text, and the end of each.
    pub(crate) text: String,
    pub(crate) ends: Vec<usize>,
    /// Tags, the most used first.
    pub(crate) tags: Vec<String>,
    /// Creators, the one with most islands first.
    pub(crate) creators: Vec<String>,
    /// Words of titles, the commonest first.
    pub(crate) words: Vec<String>,
}

impl World {
    pub(crate) fn new(islands: u32) -> World {
        let scratch = Scratch::new().unwrap();
        let files = synthetic(islands, &scratch.path().join("dataset"));
        let catalogue = catalogue(&files);
        let options = PublishOptions {
            directory: &scratch.path().join("published"),
            published: PUBLISHED,
            force: false,
            full: false,
            credit: "",
        };
        let published = publish(&files, &options, &mut |_| {}).unwrap();
        let history = published.manifest.history.unwrap();
        let file = options.directory.join(history.file);
        let open =
            || History::open(Storage::File(Arc::new(File::open(&file).unwrap())), 0).unwrap();
        // The first time reads the file into the page cache.
        drop(open());
        let begun = Instant::now();
        let history = Arc::new(open());
        let opened = begun.elapsed();
        let base_url = "https://api.example";
        let history_only = Some(Arc::clone(&history));
        let snapshot = Snapshot::new(history_only, None, &SiteSettings::new(base_url));
        let (mut text, mut ends) = (String::new(), vec![0]);
        for island in &catalogue.islands {
            text.push_str(&fold(&island.title));
            ends.push(text.len());
        }
        let islands_of = catalogue.islands.iter();
        let tags = islands_of.clone().flat_map(Island::tags);
        let creators = islands_of.filter_map(|island| island.creator.as_ref());
        World {
            islands,
            history,
            snapshot,
            opened,
            tags: by_use(tags),
            creators: by_use(creators.map(CreatorSlug::as_str)),
            words: by_use(ends.windows(2).flat_map(|at| text[at[0]..at[1]].split(' '))),
            text,
            ends,
        }
    }

    pub(crate) fn title(&self, row: usize) -> &str {
        &self.text[self.ends[row]..self.ends[row + 1]]
    }

    /// A tag by its rank.
    pub(crate) fn tag(&self, place: usize) -> Option<String> {
        self.tags.get(place).cloned()
    }

    /// The creator with most islands.
    pub(crate) fn creator(&self) -> Option<String> {
        self.creators.first().cloned()
    }
}

/// The tool of most islands.
pub(crate) const TOOL: Option<CreatedIn> = Some(CreatedIn::ALL[0]);

fn catalogue(files: &Files<'_>) -> Catalogue {
    DatasetReader::open(files, PUBLISHED.day())
        .unwrap()
        .catalogue()
        .unwrap()
}

fn synthetic(islands: u32, directory: &Path) -> Files<'static> {
    let spec = SyntheticSpec {
        islands,
        creators: islands / 5,
        days: 1,
        long_run_days: 2,
        rows: None,
        seed: 1,
        last_day: LAST_DAY,
    };
    let written = synthesize(&spec, &mut |name, bytes| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap())?;
        durable::replace(&path, bytes)
    });
    written.unwrap();
    Files::Directory(directory.to_owned())
}

/// Distinct texts, the most frequent first.
fn by_use<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for text in texts.filter(|text| !text.is_empty()) {
        *counts.entry(text).or_default() += 1;
    }
    let mut texts: Vec<(&str, usize)> = counts.into_iter().collect();
    texts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    texts.into_iter().map(|(text, _)| text.to_owned()).collect()
}
