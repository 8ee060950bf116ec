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
    let is_table = |(_, files): &(_, &[DumpEntry])| files[0].0.strip_suffix(".csv").is_some();
    let (tables, others): (Vec<_>, Vec<_>) = tables(&files).partition(is_table);
    // The history comes before the peaks.
    let others = others.into_iter().flat_map(|(_, files)| files).rev();
    // The text of the page has a link to this one.
    let others = others.filter(|(name, _)| name != "notice.txt");
    let tables = tables.into_iter().map(|(stem, files)| row(stem, files));
    let folders = FOLDERS.iter().map(|folder| page.folder_section(folder));
    let values = context! {
        forms => FORMS.map(|(_, name)| name),
        others => others.collect::<Value>(),
        tables => tables.collect::<Value>(),
        folders => folders.collect::<Value>(),
        ..Value::from(Serde(page))
    };
    super::templates::page("dumps.html", values)
}

/// Divides files, by name ascending, into those of each table, with the name of the table; `None` for others.
fn tables(files: &[DumpEntry]) -> impl DoubleEndedIterator<Item = (Option<&str>, &[DumpEntry])> {
    let tables = files.chunk_by(|(one, _), (next, _)| stem(one) == stem(next));
    tables.map(|files| (stem(&files[0].0), files))
}

/// Returns the row of a table: its name on the page, and the file of each form.
fn row(name: Option<&str>, files: &[DumpEntry]) -> Value {
    let form = |(end, _): &(&str, _)| files.iter().find(|(name, _)| name.ends_with(end));
    context! { name, forms => FORMS.iter().map(form).collect::<Value>() }
}

impl DumpsPage<'_> {
    /// Returns the newest tables of a folder.
    fn folder_section(&self, folder: &str) -> Value {
        let files = (self.list)(&format!("{folder}/"), TABLES_MAX * FORMS.len());
        let rows = tables(&files).rev().filter_map(|(stem, files)| {
            let name = &stem?[folder.len() + 1..];
            let time = name.parse().ok().filter(|_| folder == "live");
            let time = time.and_then(|time| minute(UnixSeconds(time)));
            Some(row(Some(time.as_deref().unwrap_or(name)), files))
        });
        context! { name => folder, rows => rows.take(TABLES_MAX).collect::<Value>() }
    }
}

/// Returns the name of a table without the end of one of its forms.
fn stem(name: &str) -> Option<&str> {
    FORMS.iter().find_map(|(end, _)| name.strip_suffix(end))
}

#[cfg(test)]
#[path = "dumps_page_tests.rs"]
mod tests;
