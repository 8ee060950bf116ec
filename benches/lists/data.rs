//! Synthetic datasets of any size, published to a temporary directory and opened.

use std::fs::File;

use island_metrics::calendar::UnixSeconds;
use island_metrics::dataset::{DatasetReader, Files, Island};
use island_metrics::model::{CreatorSlug, fold};
use island_metrics::regular_file::Directory;
use island_metrics::site::SiteSettings;
use island_metrics::snapshot::{History, Manifest, Snapshot, Storage};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::common::prelude::*;
use crate::filtered;

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
        let dataset = scratch.path().join("dataset");
        let published = scratch.path().join("published");
        let creators = islands / 5;
        let size = format!("--islands {islands} --creators {creators} --days 1 --long-run-days 2");
        synthesize(&dataset, &size).unwrap();
        run(publish_command(&dataset, &published, GENERATED_AT)).unwrap();
        let manifest = Manifest::read(&Directory::open(&published).unwrap()).unwrap();
        let file = published.join(manifest.unwrap().history.unwrap().file);
        let today = UnixSeconds::parse(GENERATED_AT).unwrap().day();
        let files = Files::Directory(dataset);
        let catalogue = DatasetReader::open(&files, today)
            .unwrap()
            .catalogue()
            .unwrap();
        let storage = || Storage::File(Arc::new((File::open(&file).unwrap(), file.clone())));
        let open = || History::open(storage()).unwrap();
        // The first time reads the file into the page cache.
        drop(open());
        let begun = Instant::now();
        let history = Arc::new(open());
        let opened = begun.elapsed();
        let base_url = "https://api.example";
        let history_only = Some(Arc::clone(&history));
        let snapshot = Snapshot::new(history_only, None, None, &SiteSettings::new(base_url), None);
        let (mut text, mut ends) = (String::new(), vec![0]);
        for island in &catalogue.islands {
            text.push_str(&fold(&island.title));
            ends.push(text.len());
        }
        let islands_of = catalogue.islands.iter();
        let tags = islands_of.clone().flat_map(Island::tags);
        let creators = islands_of.filter_map(|island| island.creator.as_ref());
        let world = World {
            islands,
            history,
            snapshot,
            opened,
            tags: by_use(tags),
            creators: by_use(creators.map(CreatorSlug::as_str)),
            words: by_use(ends.windows(2).flat_map(|at| text[at[0]..at[1]].split(' '))),
            text,
            ends,
        };
        let tags = (0..world.tags.len()).map(|place| world.tag(place));
        for filter in tags.chain([world.creator(), TOOL.to_owned()]) {
            let selected = world.history.select_islands(&filtered(&filter));
            assert!(selected.total > 0, "{filter} selects nothing");
        }
        world
    }

    pub(crate) fn title(&self, row: usize) -> &str {
        &self.text[self.ends[row]..self.ends[row + 1]]
    }

    /// A tag by its rank.
    pub(crate) fn tag(&self, place: usize) -> String {
        format!(
            "tag={}",
            utf8_percent_encode(&self.tags[place], NON_ALPHANUMERIC)
        )
    }

    /// The creator with most islands.
    pub(crate) fn creator(&self) -> String {
        format!(
            "creator={}",
            utf8_percent_encode(&self.creators[0], NON_ALPHANUMERIC)
        )
    }
}

/// The tool of most islands.
pub(crate) const TOOL: &str = "createdIn=uefn";

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
