//! `SiteRoute`: the resources outside the API.

use super::lists::IslandQuery;
use crate::model::IslandCode;

/// A resource outside the API. Requests for it are unmetered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteRoute {
    /// `/openapi.json`
    OpenApi,
    /// `/docs`
    Docs,
    /// A text that is fixed until the program changes.
    File(SiteFile),
    /// `/`
    Home,
    /// `/` with a query of `/v1/islands`
    Search(IslandQuery),
    /// `/islands/{code}`
    Island(IslandCode),
    /// `/keys`, the sign-up
    Keys,
    /// `/dumps/{name}`: a name of segments with slashes between them
    Dump(String),
}

/// A fixed text outside the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteFile {
    /// The objects of the API's responses.
    Objects,
    /// Examples of clients.
    Recipes,
    /// What to look out for.
    Gotchas,
    /// All of the documentation for language models.
    Llms,
    /// The style sheet of all pages.
    Style,
    /// The script of `/docs`.
    DocsScript,
    /// The style sheet of charts.
    ChartsStyle,
    /// The script of charts and times.
    ChartsScript,
    /// The icon of all pages.
    Icon,
}

impl SiteFile {
    /// All files with their paths, in the order of their numbers.
    pub const ALL: [(SiteFile, &'static str); 9] = [
        (SiteFile::Objects, "/objects"),
        (SiteFile::Recipes, "/recipes"),
        (SiteFile::Gotchas, "/gotchas"),
        (SiteFile::Llms, "/llms.txt"),
        (SiteFile::Style, "/assets/style.css"),
        (SiteFile::DocsScript, "/assets/docs.js"),
        (SiteFile::ChartsStyle, "/assets/charts.css"),
        (SiteFile::ChartsScript, "/assets/charts.js"),
        (SiteFile::Icon, "/assets/icon.svg"),
    ];

    /// Returns the file with these path segments.
    pub(super) fn find(segments: &[&str]) -> Option<SiteFile> {
        let all = SiteFile::ALL.iter();
        let mut found = all.filter(|(_, path)| path[1..].split('/').eq(segments.iter().copied()));
        found.next().map(|(file, _)| *file)
    }
}
