use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn shown(names: &[String], group: Option<&str>, folder: &str) -> String {
    let files = names.iter().map(|name| (name.clone(), 1_234_567));
    shown_of(&files.collect(), group, folder)
}

fn shown_of(files: &BTreeMap<String, u64>, group: Option<&str>, folder: &str) -> String {
    let between = |from: &str, to: &str| {
        let bounds = from.to_owned()..to.to_owned();
        (from <= to)
            .then(|| files.range(bounds))
            .into_iter()
            .flatten()
    };
    dumps(DumpsPage {
        published: "2026-11-21T12:05:00Z",
        credit: "<us>",
        base_url: "https://x.test",
        notice: Some("<made up>"),
        list: &|from, to, max| {
            let found = between(from, to).take(max);
            found.map(|(name, bytes)| (name.clone(), *bytes)).collect()
        },
        group,
        root: "../",
        folder,
    })
}

fn names() -> Vec<String> {
    let forms = |stem: &str| FORMS.map(|(end, _)| format!("{stem}{end}"));
    let days = [("2026-09", 30), ("2026-11", 20)];
    let days = days
        .iter()
        .flat_map(|(month, days)| (1..=*days).map(move |day| format!("daily/{month}-{day:02}")));
    let live = (0..300).map(|step| format!("live/{}", 1_795_176_000 + step * 600));
    let stems = ["islands".to_owned(), "platform".to_owned()]
        .into_iter()
        .chain(days)
        .chain(live);
    let mut names: Vec<String> = stems.flat_map(|stem| forms(&stem)).collect();
    names.extend(["ccu.csv.gz", "history.csv.gz", "index.json", "x/<y>"].map(str::to_owned));
    names
}

#[test]
fn every_file_is_a_link_on_the_page_of_its_group() {
    let names = names();
    let first = shown(&names, None, "");
    let groups = first
        .split("?group=")
        .skip(1)
        .map(|rest| rest.split('#').next().unwrap());
    let groups: Vec<&str> = groups.collect();
    assert_eq!(
        groups,
        [
            "daily/2026-11",
            "daily/2026-09",
            "live/2026-11-22",
            "live/2026-11-21",
            "live/2026-11-20"
        ]
    );
    let pages: Vec<String> = groups
        .iter()
        .map(|group| shown(&names, Some(group), ""))
        .collect();
    for name in &names {
        let link = format!("href=\"{}\"", name.replace('<', "%3C").replace('>', "%3E"));
        assert!(pages.iter().any(|page| page.contains(&link)), "{name}");
    }
    // One row per table, with the newest first.
    assert_eq!(first.matches("<tr><td>2026-11-").count(), 20 + 84);
    assert!(first.find("<td>2026-11-20<").unwrap() < first.find("<td>2026-11-19<").unwrap());
    assert!(first.contains("<tr><td>2026-11-22 13:50 UTC<"), "{first}");
    assert!(first.contains("aria-label=\"1.2 MB, islands.csv\">1.2 MB</a>"));
    let request = "<pre>curl --fail --remote-name 'https://x.test/dumps/history.csv.gz'</pre>";
    assert!(first.contains(request) && !shown(&[], None, "").contains("<pre>"));
    assert!(first.contains("All history: the daily metrics") && first.contains("&lt;us&gt;"));
    let beside = shown(&names, None, "dumps/");
    assert!(
        beside.contains("href=\"dumps/islands.csv\"") && beside.contains("href=\"dumps?group=")
    );
}

#[test]
fn a_file_name_out_of_order_does_not_keep_the_page_from_ending() {
    let odd = [
        "live/0.csv",
        "live/600.csv",
        "live/9000.csv",
        "live/10000.csv",
        "live/172200.csv",
        "live/999999600.csv",
        "live/10000000000.csv",
        "live/0000172200.csv",
        "live/+1795176000.csv",
        "live/-600.csv",
        "live/9223372036854775807.csv",
        "live/\u{10ffff}",
        "daily/2026-11\u{10ffff}.csv",
        "daily/9999-99",
        "ccu/-271821-04.csv",
    ];
    let groups = ["live/1970-01-02", "live/1970-01-01", "live/2001-09-09"];
    for odd in odd {
        let mut names = names();
        names.push(odd.to_owned());
        let first = shown(&names, None, "");
        assert!(first.contains("islands.csv"), "{odd}");
        for group in groups {
            shown(&names, Some(group), "");
            shown(&[odd.to_owned()], Some(group), "");
        }
    }
}
/// The places that a page links to, decoded.
fn places(page: &str) -> Vec<String> {
    let links = page.split("?group=").skip(1);
    let links = links.map(|rest| rest.split(['#', '"']).next().unwrap());
    let decoded = links.map(|link| percent_encoding::percent_decode_str(link).decode_utf8());
    decoded.map(|link| link.unwrap().into_owned()).collect()
}

/// Indexes of `count` names, each of another kind.
fn many(count: usize) -> Vec<BTreeMap<String, u64>> {
    let kinds: [fn(usize) -> String; 7] = [
        |at| format!("{at:06}.csv"),
        |at| format!("folder {:03}/{at:06}.csv.gz", at / 3),
        |at| format!("other/{at:06}.txt"),
        |at| format!("daily/{:04}-{:02}-01.csv", at / 12, at % 12 + 1),
        |at| format!("daily/2026-11-{at:06}.csv"),
        |at| format!("live/{}.csv", 1_500_000_000 + at * 600),
        |at| format!("live/{}.csv", 999_000_000 + at * 7_919),
    ];
    let index = |kind: fn(usize) -> String| (0..count).map(|at| (kind(at), 1)).collect();
    kinds.map(index).into()
}

#[test]
fn of_any_number_of_files_a_page_shows_few() {
    for files in many(200_000) {
        let page = shown_of(&files, None, "");
        assert!(page.len() < 600_000, "{} bytes", page.len());
        for place in places(&page) {
            let page = shown_of(&files, Some(&place), "");
            assert!(page.len() < 600_000, "{place}: {} bytes", page.len());
        }
    }
}

#[test]
fn links_lead_to_every_file() {
    for files in many(3_000) {
        let mut found = BTreeSet::from([String::new()]);
        let (mut visits, mut linked) = (vec![String::new()], BTreeSet::new());
        while let Some(place) = visits.pop() {
            let place = Some(place.as_str()).filter(|place| !place.is_empty());
            let page = shown_of(&files, place, "");
            let links = page.split("<a href=\"").skip(1);
            let links = links.map(|rest| rest.split('"').next().unwrap());
            let decoded =
                links.map(|link| percent_encoding::percent_decode_str(link).decode_utf8());
            linked.extend(decoded.map(|link| link.unwrap().into_owned()));
            let new = places(&page)
                .into_iter()
                .filter(|place| found.insert(place.clone()));
            visits.extend(new);
        }
        let missing: Vec<_> = files
            .keys()
            .filter(|name| !linked.contains(*name))
            .collect();
        assert!(
            missing.is_empty(),
            "{} of them: {:?}",
            missing.len(),
            missing[0]
        );
    }
}

#[test]
fn links_to_files_of_any_name_lead_to_them() {
    for name in [
        "a?b",
        "a#b",
        "50%",
        "%2e%2e",
        "javascript:alert(1)",
        "data:text,x",
        "é\u{202e}",
    ] {
        let files = BTreeMap::from([(name.to_owned(), 1)]);
        let page = shown_of(&files, None, "");
        let links = page.split("href=\"").skip(1);
        let mut links = links.map(|rest| rest.split('"').next().unwrap());
        let decoded = |link| percent_encoding::percent_decode_str(link).decode_utf8();
        let link = links.find(|link| decoded(link).unwrap() == name);
        let link = link.unwrap_or_else(|| panic!("no link to {name}"));
        assert!(
            link.is_ascii() && !link.contains([':', '#', '?', ' ']),
            "{link}"
        );
    }
}
