//! `Outside`: what there is beside the API.

use super::lists::IslandQuery;
use crate::model::IslandCode;

/// What is outside the API, and unmetered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// `/openapi.json`
    OpenApi,
    /// `/docs`, the same for people
    Docs,
    /// A text that is the same until the program changes.
    Site(SiteFile),
    /// `/`, the dashboard
    Home,
    /// `/` with a question that `/v1/islands` takes too
    Search(IslandQuery),
    /// `/islands/{code}`, an island's page for people
    Island(IslandCode),
    /// `/keys`, sign-up
    Keys,
    /// `/dumps/{name}`: a name of segments with slashes between them
    Dump(String),
}

/// A fixed text outside the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteFile {
    /// `/objects`
    Objects,
    /// `/recipes`
    Recipes,
    /// `/gotchas`
    Gotchas,
    /// `/llms.txt`
    Llms,
    /// `/assets/style.css`
    Style,
    /// `/assets/docs.js`
    DocsScript,
    /// `/assets/charts.css`
    ChartsStyle,
    /// `/assets/charts.js`
    ChartsScript,
    /// `/assets/icon.svg`
    Icon,
}

impl SiteFile {
    /// All of them, in the order of their numbers.
    pub const ALL: [SiteFile; 9] = [
        SiteFile::Objects,
        SiteFile::Recipes,
        SiteFile::Gotchas,
        SiteFile::Llms,
        SiteFile::Style,
        SiteFile::DocsScript,
        SiteFile::ChartsStyle,
        SiteFile::ChartsScript,
        SiteFile::Icon,
    ];

    /// The path.
    pub const fn path(self) -> &'static str {
        match self {
            SiteFile::Objects => "/objects",
            SiteFile::Recipes => "/recipes",
            SiteFile::Gotchas => "/gotchas",
            SiteFile::Llms => "/llms.txt",
            SiteFile::Style => "/assets/style.css",
            SiteFile::DocsScript => "/assets/docs.js",
            SiteFile::ChartsStyle => "/assets/charts.css",
            SiteFile::ChartsScript => "/assets/charts.js",
            SiteFile::Icon => "/assets/icon.svg",
        }
    }

    /// The file of a path of one or two segments, if there is one.
    pub(super) fn find(segments: &[&str]) -> Option<SiteFile> {
        let is_of = |file: &SiteFile| file.path()[1..].split('/').eq(segments.iter().copied());
        SiteFile::ALL.into_iter().find(is_of)
    }
}
