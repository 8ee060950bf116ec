//! Reader of islands.csv and creators.csv, which do not depend on any day.

use std::collections::HashMap;

use super::csv_table::{Columns, WANT_SLUG};
use super::dataset_reader::DatasetReader;
use super::fault::LoadError;
use super::island_resolver::IslandCodes;
use super::rows::{Island, Profile};
use crate::model::{CreatedIn, CreatorSlug};

/// Columns of islands.csv.
pub(super) const ISLANDS: Columns = Columns {
    names: &["code", "title", "creator", "createdIn", "tags"],
    required: 5,
};
/// Columns of creators.csv.
pub(super) const CREATORS: Columns = Columns {
    names: &["slug", "name", "followers", "following", "lifetimePlays"],
    required: 1,
};

/// All islands and all creator profiles. Other types refer to an island by its position here.
#[derive(Debug)]
pub struct Catalogue {
    /// islands.csv, by code ascending.
    pub islands: Vec<Island>,
    /// creators.csv, by slug ascending; empty if the file does not exist.
    pub profiles: Vec<Profile>,
    codes: IslandCodes,
}

impl Catalogue {
    /// Creates a catalogue from islands sorted by code and profiles sorted by slug, without duplicates.
    pub fn new(islands: Vec<Island>, profiles: Vec<Profile>) -> Catalogue {
        let codes = islands.iter().map(|island| island.code).collect();
        Catalogue {
            codes: IslandCodes::new(codes, false),
            islands,
            profiles,
        }
    }

    pub(super) fn codes(&self) -> &IslandCodes {
        &self.codes
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
        let islands = self.islands()?;
        let is_faulty = self.is_faulty(DatasetReader::ISLANDS);
        let codes = islands.iter().map(|island| island.code).collect();
        Ok(Catalogue {
            codes: IslandCodes::new(codes, is_faulty),
            islands,
            profiles: Vec::new(),
        })
    }

    fn islands(&self) -> Result<Vec<Island>, LoadError> {
        let mut islands = Vec::new();
        let mut seen = HashMap::new();
        let exists = self.for_each_row(DatasetReader::ISLANDS, &ISLANDS, |table| {
            let code = table.code(0);
            if let Some(code) = code {
                table.once(0, &mut seen, code);
            }
            table.is_plain(1);
            let title = table.field(1).into();
            let creator = table.slug(2);
            let created_in = table.optional(3, "uefn, creative or empty", CreatedIn::parse);
            let tags = if table.is_plain(4) {
                table.optional(4, "tags separated by |, none of them empty", parse_tags)
            } else {
                None
            };
            // An island with a faulty field still counts as known, so that rows of other files may refer
            // to it.
            let tags = tags.unwrap_or_default();
            islands.extend(code.map(|code| Island {
                code,
                title,
                creator,
                created_in,
                tags,
            }));
        })?;
        if !exists {
            let problem = "the file must exist, with one row per island, got no file".to_owned();
            self.fault(DatasetReader::ISLANDS, problem);
        }
        islands.sort_unstable_by_key(|island| island.code);
        Ok(islands)
    }

    fn profiles(&self) -> Result<Vec<Profile>, LoadError> {
        let mut profiles = Vec::new();
        let mut seen = HashMap::new();
        self.for_each_row(DatasetReader::CREATORS, &CREATORS, |table| {
            let slug = table.required(0, WANT_SLUG, |text| text.parse::<CreatorSlug>().ok());
            table.is_plain(1);
            let name = table.text(1);
            let [followers, following, lifetime_plays] =
                [2, 3, 4].map(|column| table.count(column));
            if let Some(slug) = slug {
                table.once(0, &mut seen, slug.clone());
                profiles.push(Profile {
                    slug,
                    name,
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
