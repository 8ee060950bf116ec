use std::collections::BTreeSet;

use super::*;

fn shown(names: &[String], folder: &str) -> String {
    let names: BTreeSet<&String> = names.iter().collect();
    dumps(DumpsPage {
        published: "2026-11-21T12:05:00Z",
        credit: "<us>",
        base_url: "https://x.test",
        notice: Some("<made up>"),
        list: &|folder, max| {
            let names = names.iter().filter(|name| {
                let rest = name.strip_prefix(folder);
                rest.is_some_and(|rest| !rest.contains('/'))
            });
            let names: Vec<_> = names.map(|name| ((*name).clone(), 1_234_567)).collect();
            names[names.len().saturating_sub(max)..].to_vec()
        },
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
    names.extend(["ccu.csv.gz", "history.csv.gz", "x/y.csv"].map(str::to_owned));
    names
}

#[test]
fn top_level_files_and_the_newest_of_each_folder_are_links() {
    let names = names();
    let page = shown(&names, "");
    let is_shown = |name: &str| match name.split_once('/') {
        None => true,
        // The days of a month and the eleven before them; and the last five hours.
        Some(("daily", day)) => day >= "2026-09-20",
        Some(("live", step)) => step >= "1795337400",
        Some(_) => false,
    };
    for name in &names {
        let link = format!("href=\"{name}\"");
        assert_eq!(page.contains(&link), is_shown(name), "{name}");
    }
    // One row per table, with the newest first.
    assert_eq!(page.matches("<tr><td>2026-").count(), 31 + 31);
    assert!(page.find("<td>2026-11-20<").unwrap() < page.find("<td>2026-11-19<").unwrap());
    assert!(page.contains("<tr><td>2026-11-22 13:50 UTC<"), "{page}");
    assert!(page.contains("aria-label=\"1.2 MB, islands.csv\">1.2 MB</a>"));
    let all = "<a href=\"index.json\">index.json</a> has all, with names such as \
        <code>daily/2026-03-04.csv.gz</code>";
    assert!(page.contains(all) && !page.contains("peaks of earlier days"));
    let request = "<pre>curl --fail --remote-name 'https://x.test/dumps/history.csv.gz'</pre>";
    assert!(page.contains(request) && !shown(&[], "").contains("<pre>"));
    assert!(
        page.contains("All history: the daily metrics") && page.contains("<bdi>&lt;us&gt;</bdi>")
    );
    let beside = shown(&names, "dumps/");
    assert!(
        beside.contains("href=\"dumps/islands.csv\"")
            && beside.contains("href=\"dumps/daily/2026-11-20.csv\"")
            && beside.contains("href=\"dumps/index.json\">index.json</a> has all, with")
    );
}

#[test]
fn of_any_number_of_files_of_any_names_a_page_shows_few() {
    let kinds: [fn(usize) -> String; 8] = [
        |at| format!("{at:06}.csv"),
        |at| format!("folder {:03}/{at:06}.csv.gz", at / 3),
        |at| format!("other/{at:06}.txt"),
        |at| format!("daily/{at:06}.txt"),
        |at| format!("daily/{:04}-{:02}-01.csv", at / 12, at % 12 + 1),
        |at| format!("daily/2026-11-{at:06}.csv"),
        |at| format!("live/{}.csv", 1_500_000_000 + at * 600),
        |at| format!("live/{}.csv", 999_000_000 + at * 7_919),
    ];
    for kind in kinds {
        let names: Vec<String> = (0..200_000).map(kind).collect();
        let page = shown(&names, "");
        assert!(page.len() < 60_000, "{}: {} bytes", names[0], page.len());
    }
    for odd in [
        "live/0.csv",
        "live/9000.csv",
        "live/10000000000.csv",
        "live/0000172200.csv",
        "live/+1795176000.csv",
        "live/-600.csv",
        "live/9223372036854775807.csv",
        "live/\u{10ffff}.csv",
        "live/.csv",
        "daily/2026-11\u{10ffff}.csv",
        "daily/9999-99.csv",
        "ccu/-271821-04.csv",
    ] {
        let page = shown(&[odd.to_owned()], "");
        let end = format!("{odd}\">1.2 MB</a>");
        assert!(page.contains(&end), "{page}");
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
        let page = shown(&[name.to_owned()], "");
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
