//! Templates of pages: the files of `templates/`, HTML with names of values in braces.

use std::fmt::{Display, Write as _};

/// Fills a file of `templates/`, or another template, with the values of variables, as [`fill`] does.
macro_rules! filled {
    ($file:literal; $($name:ident),*) => {
        filled!(include_str!(concat!("templates/", $file)); $($name),*)
    };
    ($template:expr; $($name:ident),*) => {
        $crate::site::templates::fill($template, &[$((stringify!($name), &$name)),*])
    };
}
pub(super) use filled;

/// Returns a template with values in place of `{name}`. Lines of a template are joined without their
/// indentation; an empty line is a line break. A line that begins with `{?name}` is left out if that
/// value is empty, and one that begins with `{!name}` if it is not.
pub(super) fn fill(template: &str, values: &[(&str, &dyn Display)]) -> String {
    let value = |name: &str| {
        let value = values.iter().find(|(other, _)| *other == name);
        value.map_or_else(
            || unreachable!("no value for {{{name}}}"),
            |(_, value)| value,
        )
    };
    let mut html = String::new();
    for line in template.lines().map(str::trim) {
        let conditional = |mark: &str| line.strip_prefix(mark)?.split_once('}');
        let is_empty = |name| value(name).to_string().is_empty();
        let mut rest = match (conditional("{?"), conditional("{!")) {
            (Some((name, _)), _) if is_empty(name) => continue,
            (_, Some((name, _))) if !is_empty(name) => continue,
            (Some((_, line)), _) | (_, Some((_, line))) => line,
            _ if line.is_empty() => "\n",
            _ => line,
        };
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or_default();
            let _ = write!(html, "{before}{}", value(name));
            rest = after;
        }
        html.push_str(rest);
    }
    html
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_template_is_joined_and_its_names_are_replaced_once() {
        let (x, number, none) = ("{number}", 7, "");
        let template = "<p>{x}\n  <b>{number}, {x}</b>\n\n{?none}<b>{x}\n {?x} and {number}\n{!none}<i>\n{!x}<u>";
        let page = filled!(template; x, number, none);
        assert_eq!(page, "<p>{number}<b>7, {number}</b>\n and 7<i>");
    }

    /// Returns the texts between two marks.
    fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
        let parts = text.split(open).skip(1);
        parts
            .map(|part| part.split(close).next().unwrap())
            .collect()
    }

    #[test]
    fn every_template_is_filled_with_the_values_that_it_names() {
        let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/site");
        let mut unused: BTreeSet<String> = fs::read_dir(site.join("templates"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for entry in fs::read_dir(&site).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|end| end == "rs");
            let source = is_source.then(|| fs::read_to_string(&path).unwrap());
            for call in between(&source.unwrap_or_default(), "filled!(", ')') {
                let Some((file, values)) = call.split_once(';') else {
                    continue;
                };
                // The frame of pages is the template that is not named by a literal.
                let file = match file.trim().trim_matches('"') {
                    "&frame" => "frame.html",
                    "template" => continue,
                    file => file,
                };
                let text = fs::read_to_string(site.join("templates").join(file));
                let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
                let named = between(&text, "{", '}').into_iter();
                let named: BTreeSet<&str> = named
                    .map(|name| name.trim_start_matches(['?', '!']))
                    .collect();
                let values = values.split(',').map(str::trim);
                let values: BTreeSet<&str> = values.filter(|value| !value.is_empty()).collect();
                assert_eq!(named, values, "{file}");
                unused.remove(file);
            }
        }
        assert!(unused.is_empty(), "{unused:?}");
    }
}
