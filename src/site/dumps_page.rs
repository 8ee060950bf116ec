//! `/dumps/` in HTML: the files for download, by table, month and day.

use minijinja::{Value, context};

use super::filters::minute;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

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

/// The dumps as the page needs them.
#[derive(Clone, Copy)]
pub struct DumpsPage<'a> {
    /// The publish timestamp.
    pub published: &'a str,
    pub credit: &'a str,
    /// Returns names and lengths of the files from a name up to another one, at most so many.
    pub list: &'a dyn Fn(&str, &str, usize) -> Vec<DumpEntry>,
    /// Returns names of the last files from a name up to another one, at most so many, the last one first.
    pub last: &'a dyn Fn(&str, &str, usize) -> Vec<String>,
    /// The place at which the page begins: the name of a file or folder; in a folder, FOLDER/MONTH, live/DAY, or the
    /// name of a file.
    pub group: Option<&'a str>,
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
    /// The relative path from the page to the dumps.
    pub folder: &'a str,
}

/// Returns the page, of limited length for any number of files and any names: what is not shown is a link
/// away.
pub fn dumps(page: DumpsPage<'_>) -> String {
    let TopLevel {
        files,
        mut folders,
        next,
    } = page.top_level();
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
        next,
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

/// The files outside folders, and the folders, from a place on.
struct TopLevel {
    files: Vec<DumpEntry>,
    folders: Vec<String>,
    /// The name of the first file or folder that is left out.
    next: Option<String>,
}

impl DumpsPage<'_> {
    /// Returns the start of the top level, or the part that begins at the place to show.
    fn top_level(&self) -> TopLevel {
        let start = self.top_level_from("");
        let Some(place) = self.group else {
            return start;
        };
        let (name, is_in_folder) = match place.split_once('/') {
            Some((folder, _)) => (folder, true),
            None => (place, false),
        };
        if is_in_folder && start.folders.iter().any(|folder| folder == name) {
            return start;
        }
        let other = self.top_level_from(name);
        if other.files.is_empty() && other.folders.is_empty() {
            return start;
        }
        other
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
        TopLevel {
            files,
            folders,
            next,
        }
    }

    /// Returns the files of the chosen group of a folder, and the names of the groups around it.
    fn folder_section(&self, folder: &str) -> Value {
        let end = end_of(folder);
        let place = self.place_in(folder);
        let place = place.filter(|place| !(self.list)(place, &end, 1).is_empty());
        let place = place.unwrap_or_else(|| self.newest_place(folder));
        let first = (self.list)(&place, &end, 1).pop();
        let (first, _) = first.expect("a folder has a file");
        let group = Group::of(folder, &first);
        let from = place.max(group.from.clone());
        let mut files = (self.list)(&from, &group.to, FILES_MAX + 1);
        let left_out = (files.len() > FILES_MAX).then(|| files.pop()).flatten();
        let after = left_out.map_or(group.to, |(name, _)| name);
        let name_of = |name: &str| name[folder.len() + 1..].to_owned();
        let chosen = if from == group.from {
            group.name
        } else {
            name_of(&first)
        };
        let mut tabs = self.newer_groups(folder, after);
        tabs.push(chosen.clone());
        tabs.extend(self.older_groups(folder, from));
        // The only group is a tab if its name is not that of a file.
        if tabs.len() == 1 && Group::in_time(folder, &first).is_none() {
            tabs.clear();
        }
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
            chosen,
            rows => rows.collect::<Value>(),
            others => others.collect::<Value>(),
        }
    }

    /// Returns the start of the newest month or day; that of the folder if the last file has none.
    fn newest_place(&self, folder: &str) -> String {
        let start = format!("{folder}/");
        let last = (self.last)(&start, &end_of(folder), 1).pop();
        let newest = last.and_then(|last| Group::in_time(folder, &last));
        newest.map_or(start, |newest| newest.from)
    }

    /// Returns the names of groups after a place, newest first.
    fn newer_groups(&self, folder: &str, mut at: String) -> Vec<String> {
        let (mut names, end) = (Vec::new(), end_of(folder));
        while names.len() < TABS_MAX
            && let Some((name, _)) = (self.list)(&at, &end, 1).pop()
        {
            let group = Group::of(folder, &name);
            // The rest of a group that is too long.
            let is_rest = group.from < at;
            names.push(if is_rest {
                name[folder.len() + 1..].to_owned()
            } else {
                group.name
            });
            at = group.to;
        }
        names.reverse();
        names
    }

    /// Returns the names of groups before a place, newest first.
    fn older_groups(&self, folder: &str, mut at: String) -> Vec<String> {
        let (mut names, start) = (Vec::new(), format!("{folder}/"));
        while names.len() < TABS_MAX
            && let Some(mut name) = (self.last)(&start, &at, 1).pop()
        {
            if Group::in_time(folder, &name).is_none() {
                // As many files as a page shows that are in no month or day.
                let before = (self.last)(&start, &at, FILES_MAX).into_iter();
                let before = before.take_while(|name| Group::in_time(folder, name).is_none());
                name = before.last().unwrap_or(name);
            }
            let group = Group::of(folder, &name);
            names.push(group.name);
            at = group.from;
        }
        names
    }

    /// Returns the place to show in a folder, if there is one.
    fn place_in(&self, folder: &str) -> Option<String> {
        let place = self.group?.strip_prefix(folder)?.strip_prefix('/')?;
        let day = UtcDay::parse(place).filter(|_| folder == "live");
        let start = day.map(|day| (i64::from(day.0) * DAY_SECONDS).to_string());
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
    /// any names.
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
                let start = i64::from(day.0) * DAY_SECONDS;
                let end = start + DAY_SECONDS;
                (day.to_string(), start.to_string(), end.to_string())
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

fn has_plain_form(files: &[DumpEntry], stem: &str) -> bool {
    let mut names = files.iter().map(|(name, _)| name.strip_suffix(".csv"));
    names.any(|name| name == Some(stem))
}

#[cfg(test)]
#[path = "dumps_page_tests.rs"]
mod tests;
