//! Text the server hands out beside the API: the `OpenAPI` document, and the pages for people.
//!
//! In: bodies of the API, and what is to be shown of keys. Out: HTML, its style and scripts. Pages
//! name each other by relative addresses, so they work behind any prefix; they hold no inline style
//! or script, so the strictest policy fits them. They read the API's bodies as any client does, and know
//! nothing else of the service.

mod api_bodies;
mod chart;
mod docs_page;
mod dumps_page;
mod frame;
mod home_page;
mod html;
mod island_page;
mod keys_pages;
mod objects_page;
mod openapi;
mod search_page;
mod text_pages;

pub use dumps_page::dumps;
pub use home_page::{HomeBodies, home};
pub use island_page::island;
pub use keys_pages::{Held, HeldKey, KeysPage, keys};
pub use search_page::{Sought, search};

const OPENAPI: &str = include_str!("openapi.json");

/// The icon of all pages, in SVG.
pub const ICON: &str = include_str!("assets/icon.svg");

/// The `OpenAPI` 3.1 document with its one server (SPEC section 1).
pub fn openapi(base_url: &str) -> String {
    let quoted = serde_json::to_string(base_url).expect("text serializes");
    OPENAPI.replacen("\"{base_url}\"", &quoted, 1)
}

/// The page at `/docs`, in HTML. Its examples are of a ranking, the body of `/v1/rankings/latest`; where there
/// is none, of the document.
pub fn docs(base_url: &str, ranking: Option<&[u8]>) -> String {
    docs_page::page(base_url, ranking)
}

/// The page at `/objects`, in HTML.
pub fn objects(base_url: &str) -> String {
    objects_page::page(&openapi(base_url), base_url)
}

/// The page at `/gotchas`, in HTML.
pub fn gotchas() -> String {
    text_pages::gotchas()
}

/// The page at `/recipes`, in HTML.
pub fn recipes(base_url: &str) -> String {
    text_pages::recipes(base_url)
}

/// `/llms.txt`, in Markdown.
pub fn llms(base_url: &str) -> String {
    text_pages::llms(&openapi(base_url), base_url)
}

/// The style of all pages, in CSS.
pub fn style() -> String {
    served(include_str!("assets/style.css")).replace('\n', "")
}

/// The script of `/docs`.
pub fn docs_script() -> String {
    served(include_str!("assets/docs.js"))
}

/// The style of charts and tiles, in CSS.
pub fn charts_style() -> String {
    served(include_str!("assets/charts.css")).replace('\n', "")
}

/// The script of pages with times or charts.
pub fn charts_script() -> String {
    served(include_str!("assets/charts.js"))
}

/// A script without what is for its readers: indentation, and lines of comment.
fn served(script: &str) -> String {
    let lines = script.lines().map(str::trim);
    let kept: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    kept.join("\n")
}

/// A page of a title and a sentence, in HTML.
/// `root` is the way to where the service begins, as `../`.
pub fn plain(title: &str, message: &str, root: &str) -> String {
    text_pages::plain(title, message, root)
}

/// What is shown where a body cannot be read, which would be a fault of ours.
fn unread(root: &str) -> String {
    plain(
        "Nothing to show",
        "This page could not be made. The API has the same data.",
        root,
    )
}
