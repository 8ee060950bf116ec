//! `/dumps/` in HTML: the files for download, by table, month and day.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::filters::minute;
use crate::calendar::{UnixSeconds, UtcDay};

/// The forms of a table, by the end of their names.
const FORMS: [(&str, &str); 4] = [
    (".csv", "CSV"),
    (".csv.gz", "CSV, gzip"),
    (".json", "JSON"),
    (".json.gz", "JSON, gzip"),
];

/// Files that are shown of a group, and outside folders. A month has 124, a day of live files 576.
const FILES_MAX: usize = 600;
/// Folders that are shown; a publish has three.
const FOLDERS_MAX: usize = 5;
/// Groups that the page links to on each side of the one that is shown: two and a half years of months.
const TABS_MAX: usize = 30;

/// The name and the length of a file.
pub type DumpEntry = (String, u64);

#[derive(Clone, Copy, Serialize)]
pub struct DumpsPage<'a> {
    pub published: &'a str,
    pub credit: &'a str,
    pub base_url: &'a str,
    pub notice: Option<&'a str>,
    /// Returns names and lengths of the files from a name up to another one, at most so many.
    #[serde(skip)]
    pub list: &'a dyn Fn(&str, &str, usize) -> Vec<DumpEntry>,
    /// The place at which the page begins: the name of a file or folder; in a folder, FOLDER/MONTH, live/DAY, or the
    /// name of a file.
    #[serde(skip)]
    pub group: Option<&'a str>,
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
    /// The relative path from the page to the dumps.
    pub folder: &'a str,
}

/// Returns the page, of limited length for any number of files and any names: what is not shown is a link
/// away.
pub fn dumps(page: DumpsPage<'_>) -> String {
    let (files, mut folders, next) = page.top_level();
    // A file of the whole history has only one form.
    let table = |name| stem(name).filter(|stem| find(&files, &format!("{stem}.csv")).is_some());
    let mut tables: Vec<&str> = files.iter().filter_map(|(name, _)| table(name)).collect();
    tables.dedup();
    // The history comes before the peaks.
    let others = files.iter().rev();
    // The text of the page has links to these two.
    let is_linked = |name: &str| ["index.json", "notice.txt"].contains(&name);
    let others = others.filter(|(name, _)| table(name).is_none() && !is_linked(name));
    // Names are sorted, but daily metrics are requested most.
    folders.sort_by_key(|folder| folder != "daily");
    let folders = folders.iter().map(|folder| page.folder_section(folder));
    let values = context! {
        forms => FORMS.map(|(_, name)| name),
        others => others.collect::<Value>(),
        tables => tables.iter().map(|stem| row(stem, stem, &files)).collect::<Value>(),
        folders => folders.collect::<Value>(),
        next,
        ..Value::from(Serde(page))
    };
    super::templates::page("dumps.html", values)
}

/// Returns the row of a table: its name on the page, and the file of each form.
fn row(name: &str, stem: &str, files: &[DumpEntry]) -> Value {
    let forms = FORMS
        .iter()
        .map(|(end, _)| find(files, &format!("{stem}{end}")));
    context! { name, forms => forms.collect::<Value>() }
}

/// The files outside folders, and the folders, from a place on; and the first file or folder that is left out.
type TopLevel = (Vec<DumpEntry>, Vec<String>, Option<String>);

impl DumpsPage<'_> {
    /// Returns the start of the top level; for a place that is in no folder of it, the part that begins there.
    fn top_level(&self) -> TopLevel {
        let start = self.top_level_from("");
        let name = self.group.and_then(|place| place.split('/').next());
        let name = name.filter(|name| !start.1.iter().any(|folder| folder == name));
        let other = name.map(|name| self.top_level_from(name));
        let other = other.filter(|(files, folders, _)| !files.is_empty() || !folders.is_empty());
        other.unwrap_or(start)
    }

    fn top_level_from(&self, place: &str) -> TopLevel {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let mut from = place.to_owned();
        let mut next = None;
        while let Some((name, bytes)) = (self.list)(&from, LAST, 1).pop() {
            let folder = name.split_once('/').map(|(folder, _)| folder.to_owned());
            if files.len() == FILES_MAX || folders.len() == FOLDERS_MAX {
                next = Some(folder.unwrap_or(name));
                break;
            }
            if let Some(folder) = folder {
                from = end_of(&folder);
                folders.push(folder);
            } else {
                from = format!("{name}\0");
                files.push((name, bytes));
            }
        }
        (files, folders, next)
    }

    /// Returns the files of a group of a folder, and the names of the groups around it: of the group with the place to
    /// show, from that place on, or of the last one.
    fn folder_section(&self, folder: &str) -> Value {
        let groups = self.groups(folder);
        let found = self.place_in(folder).and_then(|place| {
            let contains = |group: &Group| group.from <= place && place < group.to;
            Some((groups.iter().position(contains)?, place))
        });
        let last = groups.len() - 1;
        let (at, from) = found.unwrap_or_else(|| (last, groups[last].from.clone()));
        let group = &groups[at];
        let mut files = (self.list)(&from, &group.to, FILES_MAX + 1);
        let next = (files.len() > FILES_MAX).then(|| files.pop()).flatten();
        let around = at.saturating_sub(TABS_MAX)..groups.len().min(at + TABS_MAX + 1);
        let tabs = groups[around].iter().rev();
        let mut tabs: Vec<String> = tabs.map(|group| group.name.clone()).collect();
        // The only group is a tab if its name is not that of a file.
        if groups.len() == 1 && group.to == end_of(folder) {
            tabs.clear();
        }
        let name_of = |name: &str| name[folder.len() + 1..].to_owned();
        let mut stems: Vec<&str> = files.iter().filter_map(|(name, _)| stem(name)).collect();
        stems.dedup();
        let rows = stems.iter().rev().map(|stem| {
            let name = name_of(stem);
            let time = name.parse().ok().filter(|_| folder == "live");
            let time = time.and_then(|time| minute(UnixSeconds(time)));
            row(&time.unwrap_or(name), stem, &files)
        });
        let others = files.iter().filter(|(name, _)| stem(name).is_none());
        context! {
            name => folder,
            tabs,
            chosen => group.name.as_str(),
            next => next.map(|(name, _)| name),
            rows => rows.collect::<Value>(),
            others => others.collect::<Value>(),
        }
    }

    /// Returns the groups of a folder in the order of their files. There is at least one, since a folder has a file.
    fn groups(&self, folder: &str) -> Vec<Group> {
        let (mut groups, mut at) = (Vec::new(), format!("{folder}/"));
        while let Some((name, _)) = (self.list)(&at, &end_of(folder), 1).pop() {
            let group = Group::of(folder, &name);
            at.clone_from(&group.to);
            groups.push(group);
        }
        groups
    }

    /// Returns the place to show in a folder, if there is one.
    fn place_in(&self, folder: &str) -> Option<String> {
        let place = self.group?.strip_prefix(folder)?.strip_prefix('/')?;
        let day = UtcDay::parse(place).filter(|_| folder == "live");
        let start = day.map(|day| day.start().0.to_string());
        Some(format!("{folder}/{}", start.as_deref().unwrap_or(place)))
    }
}

/// The files of a folder that are shown together.
struct Group {
    /// A month, or for live files a day; otherwise the name of the first file.
    name: String,
    /// The range of the files' names.
    from: String,
    to: String,
}

impl Group {
    /// Returns the group of a file of a folder. It contains the file, so that a walk over groups ends for
    /// any names: a file that is in no month or day is followed by all others.
    fn of(folder: &str, file: &str) -> Group {
        Group::in_time(folder, file).unwrap_or_else(|| Group {
            name: file[folder.len() + 1..].to_owned(),
            from: file.to_owned(),
            to: end_of(folder),
        })
    }

    /// Returns the month or day of a file; `None` if its name has no day, or if the names of the group are
    /// not in the order of their times: names are compared as text, and `9000` comes after `86400`.
    fn in_time(folder: &str, file: &str) -> Option<Group> {
        let name = &file[folder.len() + 1..];
        let (group, from, to) = match folder {
            "live" => {
                let time = UnixSeconds(name.split('.').next()?.parse().ok()?);
                let day = time.has_text().then(|| time.day())?;
                let [start, end] = [day.start(), day.end()].map(|time| time.0.to_string());
                (day.to_string(), start, end)
            }
            "daily" | "ccu" => {
                let month = name.get(..7).filter(|month| *month != name)?;
                (month.to_owned(), month.to_owned(), format!("{month}{LAST}"))
            }
            _ => return None,
        };
        let contains = (from.as_str()..to.as_str()).contains(&name);
        let [from, to] = [from, to].map(|place| format!("{folder}/{place}"));
        contains.then_some(Group {
            name: group,
            from,
            to,
        })
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

fn find<'f>(files: &'f [DumpEntry], name: &str) -> Option<&'f DumpEntry> {
    let at = files.binary_search_by(|(other, _)| other.as_str().cmp(name));
    at.ok().map(|at| &files[at])
}

#[cfg(test)]
#[path = "dumps_page_tests.rs"]
mod tests;
