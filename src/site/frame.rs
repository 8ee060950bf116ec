//! What all pages have around them: head, navigation, licence and credit.

use super::html::Escaped;

/// The frame of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Of the window.
    pub(super) title: &'a str,
    /// The way from the page to where the service begins, which need not be where its host begins:
    /// empty, or `../` for each folder.
    pub(super) root: &'a str,
    /// What it has beside the style of all pages.
    pub(super) extra: Extra,
}

/// What some pages load more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Nothing,
    /// The script of the reference.
    Docs,
    /// Style and script of charts, tiles and times.
    Charts,
}

/// SPEC section 1: who is credited, and whose the facts are.
const CREDIT: &str = "<span>Data: <a href=\"https://creativecommons.org/licenses/by/4.0/\" rel=license>CC BY 4.0</a>. \
    Credit the publisher of this service when you use it.</span>\
    <span>The metrics are facts from a third party's public interface; this service is not affiliated with that third party.</span>";

impl Frame<'_> {
    /// The whole page around its content.
    pub(super) fn around(self, content: &str) -> String {
        let Frame { title, root, extra } = self;
        let title = Escaped(title);
        // A page at the root names itself so; elsewhere `../` is its name.
        let home = if root.is_empty() { "./" } else { root };
        let script = |name: &str| format!("<script src=\"{root}assets/{name}.js\" defer></script>");
        let extra = match extra {
            Extra::Nothing => String::new(),
            Extra::Docs => script("docs"),
            Extra::Charts => {
                let style = format!("<link rel=stylesheet href=\"{root}assets/charts.css\">");
                style + &script("charts")
            }
        };
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
             <link rel=icon href=\"{root}assets/icon.svg\" type=\"image/svg+xml\">\
             <link rel=stylesheet href=\"{root}assets/style.css\">{extra}\
             <body><a class=skip href=#main>Skip to content</a>\
             <header><b><a href=\"{home}\">Island metrics</a></b><nav class=row aria-label=Pages>\
             <a href=\"{root}docs\">Docs</a> <a href=\"{root}recipes\">Recipes</a> \
             <a href=\"{root}gotchas\">Gotchas</a> <a href=\"{root}keys\">Keys</a> \
             <a href=\"{root}dumps/\">Dumps</a></nav></header>\n\
             <main id=main>{content}</main>\n<footer>{CREDIT}</footer>\n"
        )
    }
}
