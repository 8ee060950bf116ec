//! `/dumps/` in HTML: the files for download, by table, month and day.

use super::html::{Escaped, HtmlPage, ago, each, wrapped};
use super::templates::filled;
use crate::calendar::{DAY_SECONDS, UnixSeconds};

/// The forms of a table, by the end of their names.
const FORMS: [(&str, &str); 4] = [
    (".csv", "CSV"),
    (".csv.gz", "CSV, gzip"),
    (".json", "JSON"),
    (".json.gz", "JSON, gzip"),
];

/// Files that are shown of a group. A month has 124, a day of live files 576.
const FILES_MAX: usize = 1_600;

/// The name and the length of a file.
pub type DumpEntry = (String, u64);

/// The dumps as the page needs them.
#[derive(Clone, Copy)]
pub struct DumpsPage<'a> {
    /// The publish timestamp.
    pub published: &'a str,
    /// The line to credit.
    pub credit: &'a str,
    /// Returns names and lengths of the files from a name up to another one, at most so many.
    pub list: &'a dyn Fn(&str, &str, usize) -> Vec<DumpEntry>,
    /// The group to show: a folder and a month, or for live files a day.
    pub group: Option<&'a str>,
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
    /// The relative path from the page to the dumps.
    pub folder: &'a str,
}

/// Returns the page.
pub fn dumps(page: DumpsPage<'_>) -> String {
    let (files, mut folders) = page.top_level();
    let mut tables: Vec<&str> = Vec::new();
    let mut others = Vec::new();
    for (name, bytes) in &files {
        match stem(name) {
            Some(stem) if has_forms(&files, stem) => {
                if tables.last() != Some(&stem) {
                    tables.push(stem);
                }
            }
            _ => others.push((name, *bytes)),
        }
    }
    let rows = each(tables, |stem| {
        let name = Escaped(stem);
        let name = format!(
            "{name}<br><small class=wide>{}</small>",
            Escaped(about(stem))
        );
        page.table_row(stem, &name, &files)
    });
    let tables = wrapped(&head("Table"), &rows, "</table>");
    // The history comes before the peaks.
    others.reverse();
    let others = each(
        others.iter().filter(|(name, _)| *name != "index.json"),
        |(name, bytes)| {
            let (path, about) = (format!("{}{name}", page.folder), about(name));
            let (path, name) = (Escaped(&path), Escaped(name));
            format!(
                "<tr><td><a href=\"{path}\">{name}</a><td class=n>{}<td>{about}",
                size(*bytes)
            )
        },
    );
    let head = "<h2>Whole history</h2><table><thead><tr><th>File<th class=n>Size<th>Content</thead><tbody>";
    let others = wrapped(head, &others, "</table>");
    // Names are sorted, but daily metrics are requested most.
    folders.sort_by_key(|folder| folder != "daily");
    let folders = each(folders, |folder| page.folder_section(&folder));
    let (folder, root) = (page.folder, page.root);
    let (published, credit) = (ago(page.published), Escaped(page.credit));
    let content = filled!("dumps.html"; published, folder, credit, others, tables, folders);
    let description = "All data as files in CSV and JSON, without a key and without a quota.";
    let page = HtmlPage::new("dumps/", "Dumps", description);
    HtmlPage { root, ..page }.html(&content)
}

impl DumpsPage<'_> {
    /// Returns the files outside folders, and the folders.
    fn top_level(&self) -> (Vec<DumpEntry>, Vec<String>) {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let mut from = String::new();
        while let Some((name, bytes)) = (self.list)(&from, LAST, 1).pop() {
            if let Some((folder, _)) = name.split_once('/') {
                // The character after the slash.
                from = format!("{folder}0");
                folders.push(folder.to_owned());
            } else {
                from = format!("{name}\0");
                files.push((name, bytes));
            }
        }
        (files, folders)
    }

    /// Returns the files of the chosen group of a folder, and links to the other groups.
    fn folder_section(&self, folder: &str) -> String {
        let title = match folder {
            "daily" => "Daily metrics",
            "ccu" => "Daily peaks of earlier days",
            "live" => "Live steps",
            other => other,
        };
        let groups = self.groups(folder);
        let own = self
            .group
            .and_then(|group| group.strip_prefix(folder)?.strip_prefix('/'));
        let chosen = own.filter(|own| groups.iter().any(|group| group == own));
        let chosen = chosen
            .or(groups.first().map(String::as_str))
            .unwrap_or_default();
        let links = each(&groups, |group| {
            let current = (group == chosen).then_some(" aria-current=true");
            let current = current.unwrap_or_default();
            let page = if self.folder.is_empty() { "" } else { "dumps" };
            let url = format!("{page}?group={folder}/{group}#{folder}");
            format!("<a href=\"{}\"{current}>{group}</a> ", Escaped(&url))
        });
        let title = Escaped(title);
        let nav = format!("<nav class=tabs aria-label=\"{title}\">");
        let links = wrapped(&nav, &links, "</nav>");
        let files = self.files_of(folder, chosen);
        let mut stems: Vec<&str> = files.iter().filter_map(|(name, _)| stem(name)).collect();
        stems.dedup();
        let rows = each(stems.iter().rev(), |stem| {
            let name = &stem[folder.len() + 1..];
            let time = name.parse().ok().map(UnixSeconds);
            let time = time.filter(|time| folder == "live" && time.has_text());
            let time = time.map(|time| time.to_string());
            let time = time.map(|time| format!("{} {} UTC", &time[..10], &time[11..16]));
            let name = Escaped(time.as_deref().unwrap_or(name)).to_string();
            self.table_row(stem, &name, &files)
        });
        let column = if folder == "live" { "Time" } else { "Day" };
        let table = wrapped(&head(column), &rows, "</table>");
        let others = files.iter().filter(|(name, _)| stem(name).is_none());
        let others = each(others, |(name, bytes)| {
            let (path, size) = (format!("{}{name}", self.folder), size(*bytes));
            let (path, name) = (Escaped(&path), Escaped(name));
            format!("<li><a href=\"{path}\">{name}</a> {size}")
        });
        let others = wrapped("<ul>", &others, "</ul>");
        let folder = Escaped(folder);
        format!("<h2 id=\"{folder}\">{title}</h2>{links}{table}{others}")
    }

    /// Returns the files of a group.
    fn files_of(&self, folder: &str, group: &str) -> Vec<DumpEntry> {
        let day = UnixSeconds::parse(&format!("{group}T00:00:00Z"));
        let (from, to) = match (folder, day) {
            ("live", Some(day)) => (
                format!("live/{}", day.0),
                format!("live/{}", day.0 + DAY_SECONDS),
            ),
            _ => (
                format!("{folder}/{group}"),
                format!("{folder}/{group}{LAST}"),
            ),
        };
        (self.list)(&from, &to, FILES_MAX)
    }

    /// Returns the months of a folder, or the days of live files, newest first.
    fn groups(&self, folder: &str) -> Vec<String> {
        let (mut groups, mut from) = (Vec::new(), format!("{folder}/"));
        let end = format!("{folder}0");
        while let Some((name, _)) = (self.list)(&from, &end, 1).pop() {
            let rest = &name[folder.len() + 1..];
            let digits = rest.split('.').next().unwrap_or_default();
            let (group, next) = match (folder, digits.parse::<i64>()) {
                ("live", Ok(time)) if UnixSeconds(time).has_text() => {
                    let day = UnixSeconds(time).day();
                    let end = (i64::from(day.0) + 1) * DAY_SECONDS;
                    (day.to_string(), format!("live/{end}"))
                }
                ("daily" | "ccu", _) if rest.is_char_boundary(7) && rest.len() > 7 => (
                    rest[..7].to_owned(),
                    format!("{folder}/{}{LAST}", &rest[..7]),
                ),
                _ => return Vec::new(),
            };
            groups.push(group);
            from = next;
        }
        groups.reverse();
        groups
    }

    /// Returns the row of a table with its forms. `name` is HTML.
    fn table_row(&self, stem: &str, name: &str, files: &[(String, u64)]) -> String {
        let forms = each(FORMS, |(end, _)| {
            let file = format!("{stem}{end}");
            let at = files.binary_search_by(|(other, _)| other.as_str().cmp(&file));
            let link = each(at.ok(), |at| {
                let size = size(files[at].1);
                let path = format!("{}{file}", self.folder);
                let (path, file) = (Escaped(&path), Escaped(&file));
                format!("<a href=\"{path}\" aria-label=\"{size}, {file}\">{size}</a>")
            });
            format!("<td class=n>{link}")
        });
        format!("<tr><td>{name}{forms}")
    }
}

/// Returns the header of a table of files with their forms.
fn head(first: &str) -> String {
    let forms = each(FORMS, |(_, name)| format!("<th class=n>{name}"));
    format!("<table class=files><thead><tr><th>{first}{forms}</thead><tbody>")
}

/// A text after all names.
const LAST: &str = "\u{10ffff}";

/// Returns the name of a table without the end of one of its forms.
fn stem(name: &str) -> Option<&str> {
    FORMS.iter().find_map(|(end, _)| name.strip_suffix(end))
}

/// Returns whether a table has its plain form. A file of the whole history has only one form.
fn has_forms(files: &[(String, u64)], stem: &str) -> bool {
    files
        .iter()
        .any(|(name, _)| name.strip_suffix(".csv") == Some(stem))
}

/// Returns the description of a table or a file, its name if it has none.
fn about(name: &str) -> &str {
    match name {
        "islands" => "All islands: code, title, creator, tool and tags",
        "creators" => "Creators with their public profiles",
        "platform" => "Players of the whole platform in each 10-minute step",
        "history.csv.gz" => "All days with daily metrics in one file, sorted by date and code",
        "ccu.csv.gz" => "All known daily peaks in one file, sorted by date and code",
        other => other,
    }
}

/// Returns a size in the largest unit that it fills.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        _ => (1_000_000_000, "GB"),
    };
    let tenths = bytes / (unit / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shown(names: &[String], group: Option<&str>, folder: &str) -> String {
        let files: BTreeMap<String, u64> =
            names.iter().map(|name| (name.clone(), 1_234_567)).collect();
        let list = |from: &str, to: &str, max: usize| {
            let found = files.range(from.to_owned()..to.to_owned()).take(max);
            found.map(|(name, bytes)| (name.clone(), *bytes)).collect()
        };
        dumps(DumpsPage {
            published: "2026-11-21T12:05:00Z",
            credit: "<us>",
            list: &list,
            group,
            root: "../",
            folder,
        })
    }

    fn names() -> Vec<String> {
        let forms = |stem: &str| FORMS.map(|(end, _)| format!("{stem}{end}"));
        let days = [("2026-09", 30), ("2026-11", 20)];
        let days = days.iter().flat_map(|(month, days)| {
            (1..=*days).map(move |day| format!("daily/{month}-{day:02}"))
        });
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
            let link = format!("href=\"{}\"", Escaped(name));
            assert!(pages.iter().any(|page| page.contains(&link)), "{name}");
        }
        // One row per table, with the newest first.
        assert_eq!(first.matches("<tr><td>2026-11-").count(), 20 + 84);
        assert!(first.find("<td>2026-11-20<").unwrap() < first.find("<td>2026-11-19<").unwrap());
        assert!(first.contains("<tr><td>2026-11-22 13:50 UTC<"), "{first}");
        assert!(first.contains("aria-label=\"1.2 MB, islands.csv\">1.2 MB</a>"));
        assert!(
            first.contains("All days with daily metrics in one file")
                && first.contains("&lt;us&gt;")
        );
        let beside = shown(&names, None, "dumps/");
        assert!(
            beside.contains("href=\"dumps/islands.csv\"") && beside.contains("href=\"dumps?group=")
        );
    }

    #[test]
    fn sizes_are_in_the_largest_unit_that_they_fill() {
        let told = [0, 999, 1_000, 14_979, 999_999, 1_000_000, 2_500_000_000].map(size);
        let want = [
            "0 B", "999 B", "1.0 kB", "14.9 kB", "999.9 kB", "1.0 MB", "2.5 GB",
        ];
        assert_eq!(told, want);
    }
}
