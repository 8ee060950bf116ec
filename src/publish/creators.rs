//! The creators of a history, derived from its input.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::history_input::HistoryInput;
use super::packed_day::to_u32;
use super::render;
use crate::dataset::Profile;
use crate::model::{CreatorSlug, SortField};

/// A creator. Creators are numbered in list order.
#[derive(Default)]
pub(crate) struct Creator<'a> {
    pub(crate) slug: &'a str,
    profile: Option<&'a Profile>,
    /// Rows of its islands, ascending.
    pub(crate) islands: Vec<u32>,
    /// Totals of its islands on the latest day. A sum of counts may exceed 2^64.
    sums: [Option<u128>; 6],
}

impl<'a> Creator<'a> {
    /// Returns all creators in islands.csv or creators.csv, by peak descending, nulls last, then by
    /// slug.
    pub(crate) fn collect(input: &HistoryInput<'a>) -> Vec<Creator<'a>> {
        let mut by_slug: BTreeMap<&str, Creator<'a>> = BTreeMap::new();
        for profile in &input.catalogue.profiles {
            by_slug.entry(profile.slug.as_str()).or_default().profile = Some(profile);
        }
        for (row, island) in input.catalogue.islands.iter().enumerate() {
            let Some(slug) = island.creator.as_ref().map(CreatorSlug::as_str) else {
                continue;
            };
            let creator = by_slug.entry(slug).or_default();
            creator.islands.push(to_u32(row));
            for (field, sum) in SortField::ALL.into_iter().zip(&mut creator.sums) {
                if let Some(count) = input.latest[row].count(field) {
                    *sum.get_or_insert(0) += u128::from(count);
                }
            }
        }
        let creators = by_slug.into_iter();
        let mut creators: Vec<Creator<'a>> = creators
            .map(|(slug, creator)| Creator { slug, ..creator })
            .collect();
        creators.sort_by_key(|creator| Reverse(creator.sums[SortField::PeakCcu as usize]));
        creators
    }

    pub(crate) fn list_row(&self) -> Vec<u8> {
        render::creator_row(self.slug, self.islands.len(), &self.sums)
    }

    /// `/v1/creators/{slug}`, with the islands by peak descending. `rows` are all rows of the
    /// island list.
    pub(crate) fn body(&self, input: &HistoryInput<'_>, rows: &[Vec<u8>]) -> Vec<u8> {
        let mut islands = self.islands.clone();
        islands.sort_by_key(|row| Reverse(input.latest[*row as usize].count(SortField::PeakCcu)));
        let rows = islands.iter().map(|row| rows[*row as usize].as_slice());
        render::creator(&self.list_row(), self.profile, rows, input.published)
    }
}
