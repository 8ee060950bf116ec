//! The site: the `OpenAPI` document, and the pages in HTML with their styles and scripts.
//!
//! In: bodies of the API, and the keys of an address. Out: HTML. Pages name each other by relative
//! paths, so they work below any prefix. They have no inline style or script, so a content
//! security policy can forbid both. They read the API's bodies as any client does, and are
//! independent of all modules but `calendar`, `model` and `request`, which has the parameters of lists.
//!
//! The HTML is in `templates/`, in the language of Jinja; the code of this module prepares the values.
//!
//! Reading order: `settings` (settings that pages state), `templates`, `guides`, `filters`, `metrics`, `text`, `chart`,
//! `markdown`, `json`; `bodies` and the pages drawn from them: `data_pages`, `dumps_page`; `openapi`, which
//! completes `openapi.json`, and the page written from it and from bodies: `docs_page`; `keys_pages`.

mod bodies;
mod chart;
mod data_pages;
mod docs_page;
mod dumps_page;
mod filters;
mod guides;
mod json;
mod keys_pages;
mod markdown;
mod metrics;
mod openapi;
mod settings;
mod templates;
mod text;

use minijinja::Value;
use minijinja::value::Serde;

pub use bodies::{BodyOf, live_players, newest_step};
pub use data_pages::{
    DayLinks, IslandPage, creator, creators, home, island, islands, live, message_page,
    new_islands, ranking,
};
pub use docs_page::docs;
pub use dumps_page::{DumpEntry, DumpsPage, dumps};
pub use keys_pages::{
    AddressKeys, ListedKey, keys_closed, keys_form, keys_list, keys_mailed, keys_refused,
};
pub use openapi::openapi;
pub use settings::SiteSettings;

use openapi::Document;
use templates::page;

/// Returns the fixed text at a path outside the API; there must be one.
pub fn file(path: &str, service: &SiteSettings) -> String {
    let settings = || Value::from(Serde(service));
    match path {
        "/openapi.json" => openapi(service),
        "/objects" => page("objects.html", Document::parsed(service).values(service)),
        "/llms.txt" => page("llms.txt", Document::parsed(service).values(service)),
        "/recipes" => page("recipes.html", settings()),
        "/gotchas" => page("gotchas.html", settings()),
        "/changelog" => page("changelog.html", settings()),
        "/robots.txt" => page("robots.txt", settings()),
        "/sitemap.xml" => page("sitemap.xml", settings()),
        "/favicon.ico" | "/assets/icon.svg" => include_str!("assets/icon.svg").to_owned(),
        "/assets/style.css" => shortened(include_str!("assets/style.css"), ""),
        "/assets/docs.css" => shortened(include_str!("assets/docs.css"), ""),
        "/assets/site.js" => shortened(include_str!("assets/site.js"), "\n"),
        "/assets/docs.js" => shortened(include_str!("assets/docs.js"), "\n"),
        "/assets/charts.js" => shortened(include_str!("assets/charts.js"), "\n"),
        _ => unreachable!("no text is at {path}"),
    }
}

/// Returns a script or style without indentation and lines of comment.
fn shortened(text: &str, separator: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod template_tests;
