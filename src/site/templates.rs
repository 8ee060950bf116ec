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
/// indentation; an empty line is a line break.
pub(super) fn fill(template: &str, values: &[(&str, &dyn Display)]) -> String {
    let mut html = String::new();
    for line in template.lines().map(str::trim) {
        let line = if line.is_empty() { "\n" } else { line };
        for (at, part) in line.split(['{', '}']).enumerate() {
            if at % 2 == 0 {
                html.push_str(part);
            } else {
                let value = values.iter().find(|(name, _)| *name == part);
                let (_, value) = value.unwrap_or_else(|| unreachable!("no value for {part}"));
                let _ = write!(html, "{value}");
            }
        }
    }
    html
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_template_is_joined_and_its_names_are_replaced_once() {
        let (x, number) = ("{number}", 7);
        let template = "<p>{x}\n  <b>{number}, {x}</b>\n\n<i>\n";
        let page = filled!(template; x, number);
        assert_eq!(page, "<p>{number}<b>7, {number}</b>\n<i>");
    }
}
