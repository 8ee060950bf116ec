//! Crawls: pages of the catalogue, and of the genre rankings, one after the other.

use std::collections::{HashMap, HashSet};

use super::clean::Cleaned;
use super::request::Request;
use super::wire::RankingPage;
use crate::model::IslandCode;

/// Newest pages of the catalogue that are read every hour. It is not strictly newest first: a full crawl a day
/// finds the islands that were made public later.
const TOP_PAGES: usize = 2;
/// Pages after which a crawl is given up: the upstream never ends it. The real catalogue has 300.
const MAX_PAGES: usize = 5_000;
/// Pages of a genre's ranking that are read: the islands that are played.
const RANKING_PAGES: usize = 3;
/// Genres that are read; the upstream has 13.
const MAX_GENRES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Crawl {
    pub(super) is_full: bool,
    /// Rows that were changed or left out.
    pub(super) cleaned: Cleaned,
    after: Option<String>,
    pub(super) pages: usize,
    /// Islands that the pages listed.
    pub(super) listed: usize,
    cursors: HashSet<String, ahash::RandomState>,
}

impl Crawl {
    /// Begins a crawl of the whole catalogue, or of the newest pages.
    pub(super) fn new(is_full: bool) -> Crawl {
        Crawl {
            is_full,
            ..Crawl::default()
        }
    }

    /// Returns the request of the next page.
    pub(super) fn request(&self) -> Request {
        let after = self.after.clone();
        Request::Catalogue { after }
    }

    /// Records a page and the cursor behind it. Returns whether the crawl is done, or an error if the upstream
    /// leads it in a circle.
    pub(super) fn advance(&mut self, next: Option<String>) -> Result<bool, String> {
        self.pages += 1;
        let Some(next) = next else { return Ok(true) };
        if !self.is_full && self.pages == TOP_PAGES {
            return Ok(true);
        }
        if self.pages == MAX_PAGES || !self.cursors.insert(next.clone()) {
            let pages = self.pages;
            return Err(format!(
                "the catalogue does not end: its cursor repeats or continues after {pages} pages"
            ));
        }
        self.after = Some(next);
        Ok(false)
    }
}

/// A reading of the genre rankings.
#[derive(Debug)]
pub(super) struct Rankings {
    /// Genres to read, the next one last.
    genres: Vec<String>,
    after: Option<String>,
    pages: usize,
    pub(super) ranks: HashMap<IslandCode, u32, ahash::RandomState>,
}

impl Rankings {
    pub(super) fn new(mut genres: Vec<String>) -> Rankings {
        genres.truncate(MAX_GENRES);
        Rankings {
            genres,
            after: None,
            pages: 0,
            ranks: HashMap::default(),
        }
    }

    /// Returns the request of the next page; `None` if all genres are read.
    pub(super) fn request(&self) -> Option<Request> {
        let (slug, after) = (self.genres.last()?.clone(), self.after.clone());
        Some(Request::Ranking { slug, after })
    }

    pub(super) fn advance(&mut self, page: RankingPage) {
        for (code, rank) in page.ranks {
            let best = self.ranks.entry(code).or_insert(rank);
            *best = rank.min(*best);
        }
        self.pages += 1;
        let is_stuck = page.next == self.after;
        self.after = page.next;
        if self.after.is_none() || is_stuck || self.pages == RANKING_PAGES {
            self.after = None;
            self.pages = 0;
            self.genres.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_crawl_ends_with_its_last_page_and_a_top_crawl_after_two() {
        let cursor = |number: usize| Some(number.to_string());
        let mut crawl = Crawl::new(true);
        assert_eq!(crawl.request(), Request::Catalogue { after: None });
        assert_eq!(crawl.advance(cursor(1)), Ok(false));
        assert_eq!(crawl.request(), Request::Catalogue { after: cursor(1) });
        assert_eq!(crawl.advance(cursor(2)), Ok(false));
        assert_eq!(crawl.advance(None), Ok(true));
        let mut crawl = Crawl::new(false);
        assert_eq!(crawl.advance(cursor(1)), Ok(false));
        assert_eq!(crawl.advance(cursor(2)), Ok(true));
    }

    #[test]
    fn a_catalogue_that_leads_in_a_circle_is_given_up() {
        let mut crawl = Crawl::new(true);
        crawl.advance(Some("a".to_owned())).unwrap();
        crawl.advance(Some("b".to_owned())).unwrap();
        assert!(crawl.advance(Some("a".to_owned())).is_err());
    }

    #[test]
    fn the_best_rank_of_three_pages_of_each_genre_counts() {
        let code = |number| IslandCode::from_number(number).unwrap();
        let page = |code, rank, next: Option<&str>| RankingPage {
            ranks: vec![(code, rank)],
            next: next.map(str::to_owned),
        };
        let mut rankings = Rankings::new(vec!["b".to_owned(), "a".to_owned()]);
        let mut asked = Vec::new();
        for number in 0..4 {
            asked.push(rankings.request().unwrap().target());
            let next = ["1", "2", "3"].get(number).copied();
            rankings.advance(page(code(1), 10 - u32::try_from(number).unwrap(), next));
        }
        assert_eq!(rankings.request(), None);
        let ranks: Vec<_> = rankings.ranks.into_iter().collect();
        assert_eq!(ranks, [(code(1), 7)]);
        assert_eq!(asked[2], "/genres/a/rankings?size=1000&after=2");
        assert_eq!(asked[3], "/genres/b/rankings?size=1000");
    }
}
