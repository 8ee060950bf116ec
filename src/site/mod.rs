//! The site: the `OpenAPI` document, and the pages in HTML with their styles and scripts.
//!
//! In: bodies of the API, and the keys of an address. Out: HTML. Pages name each other by relative
//! paths, so they work below any prefix. They have no inline style or script, so the strictest
//! content security policy suits them. They read the API's bodies as any client does, and are
//! independent of everything else in the service.
//!
//! Reading order: `html` (the frame of all pages, and pieces), `markdown`, `chart`; `api_bodies`
//! and the pages drawn from them: `home_page`, `search_page`, `island_page`, `dumps_page`;
//! `openapi` and the pages written from it: `docs_page`, `objects_page`, `text_pages`;
//! `keys_pages`.

mod api_bodies;
mod chart;
mod docs_page;
mod dumps_page;
mod home_page;
mod html;
mod island_page;
mod keys_pages;
mod markdown;
mod objects_page;
mod openapi;
mod search_page;
mod text_pages;

pub use docs_page::docs;
pub use dumps_page::dumps;
pub use home_page::home;
pub use html::message_page;
pub use island_page::island;
pub use keys_pages::{
    AddressKeys, ListedKey, keys_closed, keys_form, keys_list, keys_mailed, keys_refused,
};
pub use openapi::openapi;
pub use search_page::{SearchQuery, search};

/// Returns the fixed text at a path outside the API; there must be one. Scripts and styles are
/// without indentation and lines of comment.
pub fn file(path: &str, base_url: &str) -> String {
    let text = match path {
        "/objects" => return objects_page::objects_page(base_url),
        "/recipes" => return text_pages::recipes(base_url),
        "/gotchas" => return text_pages::gotchas(),
        "/llms.txt" => return text_pages::llms(base_url),
        "/assets/icon.svg" => return include_str!("assets/icon.svg").to_owned(),
        "/assets/style.css" => include_str!("assets/style.css"),
        "/assets/charts.css" => include_str!("assets/charts.css"),
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
