//! The templates of pages: the files of `templates/`, in the language of Jinja.
//!
//! In: values, among them bodies of the API. Out: HTML, or an error if a value that the template uses is
//! missing or of another kind, so that no part of a page is ever left out by mistake. Texts are escaped;
//! only HTML that a macro or a filter has made is not.

use std::sync::LazyLock;

use minijinja::value::{Serde, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
};

use super::filters;
use super::guides;
use super::metrics::METRICS;
use super::text::Escaped;

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("templates/", $name)))),*]
    };
}

/// Names and texts of the templates. Those that begin with an underscore, `frame.html` and `prose.html` are
/// parts of others.
pub(super) const FILES: &[(&str, &str)] = &files! {
    "_chart.html" "_day_links.html" "_keys.html" "_keys_page.html" "_lists.html" "_macros.html" "changelog.html"
    "creator.html" "creators.html" "docs.html" "dumps.html" "frame.html" "gotchas.html" "home.html" "island.html"
    "islands.html" "keys_closed.html" "keys_form.html" "keys_list.html" "keys_mailed.html" "keys_refused.html"
    "live.html" "llms.txt" "message.html" "new.html" "objects.html" "prose.html" "ranking.html" "recipes.html"
    "robots.txt" "sitemap.xml"
};

pub(super) static TEMPLATES: LazyLock<Environment<'_>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    // Not `AutoEscape::Html`, whose filters would escape more characters than `write_escaped` does.
    templates.set_auto_escape_callback(|name| {
        if is_html(name) {
            AutoEscape::Custom("html".into())
        } else {
            AutoEscape::None
        }
    });
    templates.set_formatter(write_escaped);
    filters::add_to(&mut templates);
    guides::add_to(&mut templates);
    templates.add_global("METRICS", Value::from(Serde(&METRICS)));
    // The path from a page to the root of the service: that of pages at the root.
    templates.add_global("root", "");
    for (name, text) in FILES {
        let text = if is_html(name) {
            joined(text)
        } else {
            (*text).to_owned()
        };
        let added = templates.add_template_owned(*name, text);
        added.unwrap_or_else(|error| unreachable!("{name}: {error}"));
    }
    templates
});

/// Whether a template is HTML, from its name; it is plain text otherwise.
fn is_html(name: &str) -> bool {
    name.rsplit('.').next() == Some("html")
}

/// Joins the lines of a template without their indentation. An empty line is a line break.
pub(super) fn joined(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    lines
        .map(|line| if line.is_empty() { "\n" } else { line })
        .collect()
}

/// Fills a template with values, some of which are read from bodies.
pub(super) fn filled(name: &str, values: Value) -> Result<String, Error> {
    TEMPLATES.get_template(name)?.render(values)
}

/// Fills a template with values that are known to be complete, since no body is among them.
pub(super) fn page(name: &str, values: Value) -> String {
    filled(name, values).unwrap_or_else(|error| unreachable!("{name}: {error}"))
}

fn write_escaped(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let is_html = value.is_safe() || *state.auto_escape() == AutoEscape::None;
    match (value.as_str(), value.kind()) {
        (Some(text), _) if is_html => out.write_str(text)?,
        (Some(text), _) => write!(out, "{}", Escaped(text))?,
        // The value of an `if` without `else`; a variable that is missing is an error before.
        (None, ValueKind::Undefined) => {}
        (None, ValueKind::Number) => write!(out, "{value}")?,
        (None, kind) => {
            let message = format!("a page has texts and numbers only, got {kind}");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    }
    Ok(())
}
