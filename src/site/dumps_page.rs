//! `/dumps/` in HTML: the files for download. The newest days and live steps have links; `index.json` has all files.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::filters::minute;
use crate::calendar::UnixSeconds;

/// The forms of a table, by the end of their names.
const FORMS: [(&str, &str); 4] = [
    (".csv", "CSV"),
    (".csv.gz", "CSV, gzip"),
    (".json", "JSON"),
    (".json.gz", "JSON, gzip"),
];

/// The folders of a publish. Daily metrics are first, since they are requested most.
const FOLDERS: [&str; 3] = ["daily", "ccu", "live"];

/// Files that are shown outside folders. A publish has at most 17.
const TOP_LEVEL_MAX: usize = 100;
/// Tables that are shown of a folder: a month of days.
const TABLES_MAX: usize = 31;

/// The name and the length of a file.
pub type DumpEntry = (String, u64);

#[derive(Clone, Copy, Serialize)]
pub struct DumpsPage<'a> {
    pub published: &'a str,
    pub credit: &'a str,
    pub base_url: &'a str,
    pub notice: Option<&'a str>,
    /// Returns names and lengths of the last files of a folder, which is empty or ends with a slash, at most so many,
    /// by name ascending.
    #[serde(skip)]
    pub list: &'a dyn Fn(&str, usize) -> Vec<DumpEntry>,
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
    /// The relative path from the page to the dumps.
    pub folder: &'a str,
}

/// Returns the page, of limited length for any number of files and any names.
pub fn dumps(page: DumpsPage<'_>) -> String {
    let files = (page.list)("", TOP_LEVEL_MAX);
    // A file of the whole history has only one form.
    let table = |name| stem(name).filter(|stem| find(&files, &format!("{stem}.csv")).is_some());
    let mut tables: Vec<&str> = files.iter().filter_map(|(name, _)| table(name)).collect();
    tables.dedup();
    // The history comes before the peaks.
    let others = files.iter().rev();
    // The text of the page has links to these two.
    let is_linked = |name: &str| ["index.json", "notice.txt"].contains(&name);
    let others = others.filter(|(name, _)| table(name).is_none() && !is_linked(name));
    let folders = FOLDERS.iter().map(|folder| page.folder_section(folder));
    let values = context! {
        forms => FORMS.map(|(_, name)| name),
        others => others.collect::<Value>(),
        tables => tables.iter().map(|stem| row(stem, stem, &files)).collect::<Value>(),
        folders => folders.collect::<Value>(),
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

impl DumpsPage<'_> {
    /// Returns the newest tables of a folder.
    fn folder_section(&self, folder: &str) -> Value {
        let files = (self.list)(&format!("{folder}/"), TABLES_MAX * FORMS.len());
        let mut stems: Vec<&str> = files.iter().filter_map(|(name, _)| stem(name)).collect();
        stems.dedup();
        let rows = stems.iter().rev().take(TABLES_MAX).map(|stem| {
            let name = &stem[folder.len() + 1..];
            let time = name.parse().ok().filter(|_| folder == "live");
            let time = time.and_then(|time| minute(UnixSeconds(time)));
            row(time.as_deref().unwrap_or(name), stem, &files)
        });
        context! { name => folder, rows => rows.collect::<Value>() }
    }
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
