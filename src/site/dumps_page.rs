//! `/dumps/` in HTML: the files for download, by table, month and day.

use minijinja::{Value, context};

use super::filters::minute;
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
    // A file of the whole history has only one form.
    let table = |name| stem(name).filter(|stem| has_plain_form(&files, stem));
    let mut tables: Vec<&str> = files.iter().filter_map(|(name, _)| table(name)).collect();
    tables.dedup();
    // The history comes before the peaks.
    let others = files.iter().rev();
    let others = others.filter(|(name, _)| table(name).is_none() && name != "index.json");
    // Names are sorted, but daily metrics are requested most.
    folders.sort_by_key(|folder| folder != "daily");
    let folders = folders.iter().map(|folder| page.folder_section(folder));
    let values = context! {
        published => page.published,
        credit => page.credit,
        root => page.root,
        folder => page.folder,
        forms => FORMS.map(|(_, name)| name),
        others => others.collect::<Value>(),
        tables => tables.iter().map(|stem| row(stem, stem, &files)).collect::<Value>(),
        folders => folders.collect::<Value>(),
    };
    super::templates::page("dumps.html", values)
}

/// Returns the row of a table: its name on the page, and the file of each form.
fn row(name: &str, stem: &str, files: &[DumpEntry]) -> Value {
    let forms = FORMS.iter().map(|(end, _)| {
        let file = format!("{stem}{end}");
        let at = files.binary_search_by(|(other, _)| other.as_str().cmp(&file));
        at.ok().map(|at| &files[at])
    });
    context! { name, forms => forms.collect::<Value>() }
}

impl DumpsPage<'_> {
    /// Returns the files outside folders, and the folders.
    fn top_level(&self) -> (Vec<DumpEntry>, Vec<String>) {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let mut from = String::new();
        while let Some((name, bytes)) = (self.list)(&from, LAST, 1).pop() {
            if let Some((folder, _)) = name.split_once('/') {
                from = end_of(folder);
                folders.push(folder.to_owned());
            } else {
                from = format!("{name}\0");
                files.push((name, bytes));
            }
        }
        (files, folders)
    }

    /// Returns the files of the chosen group of a folder, and the names of all groups.
    fn folder_section(&self, folder: &str) -> Value {
        let groups = self.groups(folder);
        let chosen = self
            .group
            .and_then(|group| group.strip_prefix(folder)?.strip_prefix('/'));
        let chosen = groups
            .iter()
            .position(|group| Some(group.name.as_str()) == chosen);
        let chosen = groups.get(chosen.unwrap_or(0));
        let files = match chosen {
            Some(Group { from, to, .. }) => (self.list)(from, to, FILES_MAX),
            None => (self.list)(&format!("{folder}/"), &end_of(folder), FILES_MAX),
        };
        let mut stems: Vec<&str> = files.iter().filter_map(|(name, _)| stem(name)).collect();
        stems.dedup();
        let rows = stems.iter().rev().map(|stem| {
            let name = &stem[folder.len() + 1..];
            let time = name.parse().ok().filter(|_| folder == "live");
            let time = time.and_then(|time| minute(UnixSeconds(time)));
            row(time.as_deref().unwrap_or(name), stem, &files)
        });
        let others = files.iter().filter(|(name, _)| stem(name).is_none());
        context! {
            name => folder,
            groups => groups.iter().map(|group| &group.name).collect::<Value>(),
            chosen => chosen.map(|group| group.name.as_str()),
            rows => rows.collect::<Value>(),
            others => others.collect::<Value>(),
        }
    }

    /// Returns the groups of a folder, newest first; none if it has a file without a group. Ends for any
    /// names: a group contains the file that it was made of, so each step starts after that file.
    fn groups(&self, folder: &str) -> Vec<Group> {
        let (mut groups, mut from) = (Vec::new(), format!("{folder}/"));
        while let Some((name, _)) = (self.list)(&from, &end_of(folder), 1).pop() {
            let Some(group) = Group::of(folder, &name[folder.len() + 1..]) else {
                return Vec::new();
            };
            from.clone_from(&group.to);
            groups.push(group);
        }
        groups.reverse();
        groups
    }
}

/// The files of a folder that are shown together.
struct Group {
    /// A month, or for live files a day.
    name: String,
    /// The range of the files' names.
    from: String,
    to: String,
}

impl Group {
    /// Returns the group of a file; `None` if its name has no day, or if the names of the group are not
    /// in the order of their times: names are compared as text, and `9000` comes after `86400`.
    fn of(folder: &str, file: &str) -> Option<Group> {
        let (name, from, to) = match folder {
            "live" => {
                let time = UnixSeconds(file.split('.').next()?.parse().ok()?);
                let day = time.has_text().then(|| time.day())?;
                let start = i64::from(day.0) * DAY_SECONDS;
                let end = start + DAY_SECONDS;
                (day.to_string(), start.to_string(), end.to_string())
            }
            "daily" | "ccu" => {
                let month = file.get(..7).filter(|month| *month != file)?;
                (month.to_owned(), month.to_owned(), format!("{month}{LAST}"))
            }
            _ => return None,
        };
        let contains = (from.as_str()..to.as_str()).contains(&file);
        let [from, to] = [from, to].map(|place| format!("{folder}/{place}"));
        contains.then_some(Group { name, from, to })
    }
}

/// A text after all names.
const LAST: &str = "\u{10ffff}";

/// Returns a text after the files of a folder: the character after the slash.
fn end_of(folder: &str) -> String {
    format!("{folder}0")
}

/// Returns the name of a table without the end of one of its forms.
fn stem(name: &str) -> Option<&str> {
    FORMS.iter().find_map(|(end, _)| name.strip_suffix(end))
}

fn has_plain_form(files: &[DumpEntry], stem: &str) -> bool {
    let mut names = files.iter().map(|(name, _)| name.strip_suffix(".csv"));
    names.any(|name| name == Some(stem))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::site::templates::Escaped;

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
}
