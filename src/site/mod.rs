//! The site: the `OpenAPI` document, and the pages in HTML with their styles and scripts.
//!
//! In: bodies of the API, and the keys of an address. Out: HTML. Pages name each other by relative
//! paths, so they work below any prefix. They have no inline style or script, so a content
//! security policy can forbid both. They read the API's bodies as any client does, and are
//! independent of all modules but `calendar`, `model` and `request`, which has the parameters of lists.
//!
//! The HTML is in `templates/`, in the language of Jinja; the code of this module prepares the values.
//!
//! Reading order: `settings` (settings that pages state), `templates`, `filters`, `metrics`, `text`, `chart`,
//! `markdown`, `code`; `bodies` and the pages drawn from them: `data_pages`, `dumps_page`; `openapi`, which
//! completes `openapi.json`, and the pages written from it: `docs_page`, `text_pages`; `keys_pages`.

mod bodies;
mod chart;
mod code;
mod data_pages;
mod docs_page;
mod dumps_page;
mod filters;
mod keys_pages;
mod markdown;
mod metrics;
mod openapi;
mod settings;
mod templates;
mod text;
mod text_pages;

pub use bodies::{BodyOf, live_players, newest_step};
pub use chart::RANGES as CHART_DAYS;
pub use data_pages::{
    DayLinks, IslandPage, creator, creators, home, island, islands, live, message_page,
    new_islands, ranking,
};
pub use docs_page::docs;
pub use dumps_page::{DumpEntry, DumpsPage, dumps};
pub use keys_pages::{
    AddressKeys, ListedKey, keys_closed, keys_form, keys_list, keys_mailed, keys_refused,
};
pub use metrics::metric_names;
pub use openapi::openapi;
pub use settings::SiteSettings;

/// Returns the fixed text at a path outside the API; there must be one. Scripts and styles are
/// without indentation and lines of comment.
pub fn file(path: &str, service: &SiteSettings) -> String {
    let text = match path {
        "/openapi.json" => return openapi(service),
        "/objects" => return text_pages::objects(service),
        "/recipes" => return text_pages::recipes(service),
        "/gotchas" => return text_pages::gotchas(service),
        "/changelog" => return text_pages::changelog(service),
        "/llms.txt" => return text_pages::llms(service),
        "/robots.txt" => return text_pages::with_base_url("robots.txt", service),
        "/sitemap.xml" => return text_pages::with_base_url("sitemap.xml", service),
        "/favicon.ico" | "/assets/icon.svg" => return include_str!("assets/icon.svg").to_owned(),
        "/assets/style.css" => include_str!("assets/style.css"),
        "/assets/docs.css" => include_str!("assets/docs.css"),
        "/assets/site.js" => include_str!("assets/site.js"),
        "/assets/docs.js" => include_str!("assets/docs.js"),
        "/assets/charts.js" => include_str!("assets/charts.js"),
        _ => unreachable!("no text is at {path}"),
    };
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    lines.join(if path.contains(".css") { "" } else { "\n" })
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod template_tests;
