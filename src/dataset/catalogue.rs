//! Reader of islands.csv and creators.csv, which do not depend on any day.

use std::collections::HashMap;

use super::csv_table::WANT_SLUG;
use super::dataset_reader::DatasetReader;
use super::fault::LoadError;
use super::island_resolver::IslandResolver;
use super::rows::FileKind;
use super::rows::{Island, Profile};
use crate::model::{CreatedIn, CreatorSlug, IslandCode};
use crate::sync::lock;

/// All islands and all creator profiles. Other types refer to an island by its position here.
#[derive(Debug)]
pub struct Catalogue {
    /// islands.csv, by code ascending.
    pub islands: Vec<Island>,
    /// creators.csv, by slug ascending; empty if the file does not exist.
    pub profiles: Vec<Profile>,
    /// Codes of `islands`, close together for searches.
    codes: Vec<IslandCode>,
    /// Whether islands.csv has faults, in which case islands may be missing here.
    is_faulty: bool,
}

impl Catalogue {
    /// Creates a catalogue from islands sorted by code and profiles sorted by slug, without duplicates.
    pub fn new(islands: Vec<Island>, profiles: Vec<Profile>) -> Catalogue {
        Catalogue {
            codes: islands.iter().map(|island| island.code).collect(),
            is_faulty: false,
            islands,
            profiles,
        }
    }

    pub(super) fn resolver(&self) -> IslandResolver<'_> {
        IslandResolver::new(&self.codes, self.is_faulty)
    }
}

impl DatasetReader<'_> {
    /// Name of the file of islands.
    pub const ISLANDS: &'static str = "islands.csv";
    /// Name of the file of creators, which is optional.
    pub const CREATORS: &'static str = "creators.csv";

    /// Reads islands.csv and creators.csv.
    pub fn catalogue(&self) -> Result<Catalogue, LoadError> {
        Ok(Catalogue {
            profiles: self.profiles()?,
            ..self.islands_only()?
        })
    }

    /// Reads islands.csv only. The catalogue has no profiles.
    pub fn islands_only(&self) -> Result<Catalogue, LoadError> {
        let mut islands = Vec::new();
        let exists = self.read_islands(|island| islands.push(island))?;
        let mut faults = lock(&self.faults);
        if !exists {
            let problem = "the file must exist, with one row per island, got no file".to_owned();
            faults.push_file(DatasetReader::ISLANDS, problem);
        }
        islands.sort_unstable_by_key(|island| island.code);
        Ok(Catalogue {
            is_faulty: faults.has(DatasetReader::ISLANDS),
            ..Catalogue::new(islands, Vec::new())
        })
    }

    /// Calls `take` for each row of islands.csv, in the order of the file. Returns whether the file exists.
    pub fn read_islands(&self, mut take: impl FnMut(Island)) -> Result<bool, LoadError> {
        let mut seen = HashMap::new();
        self.for_each_row(DatasetReader::ISLANDS, FileKind::Islands, |table| {
            let code = table.code(0);
            if let Some(code) = code {
                table.once(0, &mut seen, code);
            }
            let title = table.text(1).unwrap_or_default().into();
            let creator = table.slug(2);
            let created_in = table.optional(3, "uefn, creative or empty", CreatedIn::parse);
            let want = "tags separated by |, none of them empty";
            let tags = table
                .text(4)
                .and_then(|_| table.optional(4, want, parse_tags));
            // An island with a faulty field still counts as known, so that rows of other files may refer
            // to it.
            if let Some(code) = code {
                take(Island {
                    code,
                    title,
                    creator,
                    created_in,
                    tags: tags.unwrap_or_default(),
                });
            }
        })
    }

    fn profiles(&self) -> Result<Vec<Profile>, LoadError> {
        let mut profiles = Vec::new();
        let mut seen = HashMap::new();
        self.for_each_row(DatasetReader::CREATORS, FileKind::Creators, |table| {
            let slug = table.required(0, WANT_SLUG, |text| text.parse::<CreatorSlug>().ok());
            let name = table.text(1).filter(|name| !name.is_empty());
            let [followers, following, lifetime_plays] =
                [2, 3, 4].map(|column| table.count(column));
            if let Some(slug) = slug {
                table.once(0, &mut seen, slug.clone());
                profiles.push(Profile {
                    slug,
                    name: name.map(Into::into),
                    followers,
                    following,
                    lifetime_plays,
                });
            }
        })?;
        profiles.sort_unstable_by(|one, other| one.slug.cmp(&other.slug));
        Ok(profiles)
    }
}

fn parse_tags(text: &str) -> Option<Vec<Box<str>>> {
    text.split('|')
        .map(|tag| (!tag.is_empty()).then(|| tag.into()))
        .collect()
}
