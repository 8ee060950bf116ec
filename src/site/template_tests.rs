//! Tests of the templates: the language as this project uses it, and pieces of pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use minijinja::{Value, context};

use super::templates::{FILES, TEMPLATES, filled, joined};

/// Fills a template that is not a file.
fn shown(template: &str, values: Value) -> String {
    let page = TEMPLATES.render_named_str("test.html", template, values);
    page.unwrap()
}

#[test]
fn every_file_is_a_template_that_is_in_use() {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/site");
    let files = fs::read_dir(site.join("templates")).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let listed = FILES.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(files.collect::<BTreeSet<_>>(), listed.collect());
    let mut texts = String::new();
    for folder in [site.clone(), site.join("templates")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.ends_with("templates.rs") {
                texts += &fs::read_to_string(path).unwrap();
            }
        }
    }
    for (name, _) in FILES {
        assert!(texts.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn lines_of_a_template_are_joined() {
    assert_eq!(
        joined("<p>\n  a b\n\n <b>{{ x }} \nc"),
        "<p>a b\n<b>{{ x }}c"
    );
}

#[test]
fn special_characters_are_escaped_and_other_values_are_errors() {
    let text = "<b a=\"x\">&amp;é'/";
    let want = "&lt;b a=&quot;x&quot;&gt;&amp;amp;é'/";
    let values = || context! { text, number => 7, list => [text], none => (), html => Value::from_safe_string("<i>".to_owned()) };
    for (template, want) in [
        ("{{ text }}", want),
        ("{{ text|e }}", want),
        ("{{ [text, html]|join }}", &format!("{want}<i>")),
        ("{{ html ~ text }}", &format!("<i>{want}")),
        ("{% set x %}{{ text }}{% endset %}{{ x }}", want),
        ("{% macro x(y) %}{{ y }}{% endmacro %}{{ x(text) }}", want),
        ("{{ '`<`'|inline }}", "<code>&lt;</code>"),
        ("{{ number }}{{ text if false }}", "7"),
    ] {
        assert_eq!(shown(template, values()), want, "{template}");
    }
    for template in [
        "{{ list }}",
        "{{ none }}",
        "{{ number.x }}",
        "{{ nothing }}",
        "{% if nothing %}{% endif %}",
        "{{ true }}",
    ] {
        let page = TEMPLATES.render_named_str("test.html", template, values());
        assert!(page.is_err(), "{template}");
    }
}

#[test]
fn the_link_of_a_section_is_marked() {
    for section in ["", "islands", "dumps/", "llms.txt"] {
        let values =
            context! { section, title => "T", description => "D", text => "x", notice => () };
        let page = filled("prose.html", values).unwrap();
        let link = format!("<a href=\"{section}\" aria-current=page>");
        let marks = usize::from(!section.is_empty());
        assert_eq!(page.matches("aria-current").count(), marks, "{section}");
        assert_eq!(page.matches(&link).count(), marks, "{section}");
    }
}

#[test]
fn a_day_is_marked_as_old_by_its_age_at_the_publish() {
    let published = "2026-11-21T12:05:00Z";
    let import = "{% from '_macros.html' import day, step %}";
    let day = |date: &str| {
        let template = format!("{import}{{{{ day(date, published) }}}}");
        shown(&template, context! { date, published })
    };
    assert!(day("2026-11-20").contains("<span hidden> <span class=old>"));
    assert!(day("2026-11-19").contains("<span hidden> <span class=old>"));
    assert!(day("2026-11-18").contains("<span> <span class=old>3 days old</span>"));
    assert!(day("2026-07-22").contains("<span> <span class=old>122 days old</span>"));
    let step = |time: i64| {
        let template = format!("{import}{{{{ step(time, published) }}}}");
        shown(&template, context! { time, published })
    };
    let ago = |minutes: i64| step(1_795_262_700 - minutes * 60);
    assert!(ago(59).contains("<span hidden> <span class=old>"));
    assert!(ago(60).contains("<span> <span class=old>1 hour old</span>"));
    assert!(step(i64::MAX).is_empty());
}

#[test]
fn lists_link_to_their_neighbours() {
    let given = context! { given => [("tag", "a&b"), ("q", "x")] };
    for (call, want) in [
        ("list_url('p', given, tag='')", "p?q=x"),
        (
            "list_url('p', given, offset=5)",
            "p?tag=a%26b&amp;q=x&amp;offset=5",
        ),
        ("list_url('p', [], tag='')", "p"),
    ] {
        assert_eq!(shown(&format!("{{{{ {call} }}}}"), given.clone()), want);
    }
    let rels = |total: u64, offset: u64| {
        let template = "{% from '_lists.html' import page_links %}{{ page_links('p', [], meta) }}";
        let meta = context! { total, limit => 10, offset };
        let links = shown(template, context! { meta });
        ["prev", "next"].map(|rel| {
            let (_, rest) = links.split_once(&format!("rel={rel} href=\""))?;
            rest.split('"').next().map(str::to_owned)
        })
    };
    let to = |url: &str| Some(url.to_owned());
    assert_eq!(rels(30, 0), [None, to("p?offset=10")]);
    assert_eq!(rels(30, 10), [to("p"), to("p?offset=20")]);
    assert_eq!(rels(30, 20), [to("p?offset=10"), None]);
    assert_eq!(rels(10, 0), [None, None]);
    // From past the end to the last page, however far it is.
    assert_eq!(rels(30, u64::MAX), [to("p?offset=20"), None]);
    assert_eq!(rels(0, 7), [to("p"), None]);
}

/// Browsers show a block in a summary, but no validator accepts it.
#[test]
fn a_summary_is_a_line_of_text() {
    for (name, text) in FILES {
        for rest in text.split("<summary>").skip(1) {
            let (summary, _) = rest.split_once("</summary>").unwrap();
            assert!(!summary.contains('<'), "{name}: {summary}");
        }
    }
}
