//! `/dumps/` in HTML: the files for download.

use std::collections::BTreeMap;

use super::api_bodies::{DumpEntry, DumpIndexBody};
use super::html::{Escaped, Page, ago, count, each, unreadable_page};

/// Files shown per folder, the newest by name. A year of days has thousands.
const FOLDER_FILES_MAX: usize = 12;

/// Returns the page of all files, given the index of the dumps. `root` and `folder` are the
/// relative paths from the page to the root of the service and to the dumps.
pub fn dumps(index: &[u8], root: &str, folder: &str) -> String {
    let Ok(index) = serde_json::from_slice::<DumpIndexBody>(index) else {
        return unreadable_page(root);
    };
    let mut folders: BTreeMap<&str, Vec<&DumpEntry>> = BTreeMap::new();
    for file in &index.files {
        let name = file.file.rsplit_once('/').map_or("", |(name, _)| name);
        folders.entry(name).or_default().push(file);
    }
    let tables = each(folders, |(name, files)| table(name, files, folder));
    let content = format!(
        "<h1>Dumps</h1><p>All of the data as files, without a key and without a quota. Published \
         {}. For programs: \
         <a href=\"{folder}index.json\"><code>index.json</code></a> lists all {} files with their lengths and \
         SHA-256, and when each last changed.</p><p class=note>{} Licence: <a href=\"{}\">{}</a></p>{tables}",
        ago(&index.generated_at),
        count(index.files.len() as u64),
        Escaped(&index.credit),
        Escaped(&index.license_url),
        Escaped(&index.license),
    );
    let page = Page {
        title: "Dumps",
        description: "All data as files in CSV and JSON, without a key and without a quota.",
        section: "dumps/",
        root,
        assets: &[],
    };
    page.html(&content)
}

fn table(name: &str, mut files: Vec<&DumpEntry>, folder: &str) -> String {
    let mut heading = String::new();
    if !name.is_empty() {
        let all = count(files.len() as u64);
        // Names are days, so the last are the newest.
        files.reverse();
        files.truncate(FOLDER_FILES_MAX);
        let (name, shown) = (Escaped(name), files.len());
        heading = format!("<h2>{name}</h2><p class=soft>The newest {shown} of {all} files.</p>");
    }
    let rows = each(files, |file| {
        let (name, size, changed) = (Escaped(&file.file), size(file.bytes), ago(&file.modified));
        format!(
            "<tr><td><a href=\"{folder}{name}\">{name}</a><td class=n>{size}<td class=wide>{changed}"
        )
    });
    format!(
        "{heading}<table><thead><tr><th>File<th class=n>Size<th class=wide>Changed</thead>{rows}</table>"
    )
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
    use super::*;

    fn index(names: &[String]) -> String {
        let file = |name: &String| {
            format!(
                r#"{{"file":"{name}","bytes":1234567,"sha256":"0","modified":"2026-11-20T12:05:00Z"}}"#
            )
        };
        let files: Vec<String> = names.iter().map(file).collect();
        format!(
            r#"{{"generatedAt":"2026-11-21T12:05:00Z","license":"CC-BY-4.0","licenseUrl":"https://l.test",
            "credit":"<us>","notice":"n","files":[{}]}}"#,
            files.join(",")
        )
    }

    #[test]
    fn files_are_links_with_the_newest_days_first() {
        let days = (10..30).map(|day| format!("daily/2026-11-{day}.csv"));
        let names: Vec<String> = days.chain(["islands.csv".to_owned()]).collect();
        let page = dumps(index(&names).as_bytes(), "../", "");
        assert!(page.contains("<a href=\"islands.csv\">islands.csv</a><td class=n>1.2 MB"));
        assert!(page.contains("The newest 12 of 20 files."));
        assert!(page.contains("lists all 21 files") && page.contains("&lt;us&gt;"));
        assert_eq!(page.matches("<a href=\"daily/2026-11-").count(), 12);
        let (newest, oldest) = (
            page.find("11-29.csv").unwrap(),
            page.find("11-18.csv").unwrap(),
        );
        assert!(newest < oldest);
        let beside = dumps(index(&names).as_bytes(), "", "dumps/");
        assert!(beside.contains("<a href=\"dumps/islands.csv\">islands.csv</a>"));
        assert!(dumps(b"{}", "../", "").contains("cannot be shown"));
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
