//! `/dumps/`: the files for download, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::api_bodies::{DumpFile, Dumps};
use super::frame::{Extra, Frame};
use super::html::{Count, Escaped};
use super::unread;

/// Files of a folder that are shown, the newest by name. A year of days has thousands.
const FOLDER_FILES_MAX: usize = 12;

/// The page of all files, from the index of the dumps. `root` is the way to where the service begins, and
/// `folder` that to the dumps.
pub fn dumps(index: &[u8], root: &str, folder: &str) -> String {
    let Ok(dumps) = serde_json::from_slice::<Dumps>(index) else {
        return unread(root);
    };
    let generated_at = Escaped(&dumps.generated_at);
    let mut content = format!(
        "<h1>Dumps</h1><p>All of the data as files, without a key and without a quota. Published \
         <time class=ago datetime=\"{generated_at}\">{generated_at}</time>. For programs: \
         <a href=\"{folder}index.json\"><code>index.json</code></a> lists all {} files with their lengths and \
         SHA-256, and when each last changed.</p><p class=note>{} Licence: <a href=\"{}\">{}</a></p>",
        Count(Some(dumps.files.len() as u64)),
        Escaped(&dumps.credit),
        Escaped(&dumps.license_url),
        Escaped(&dumps.license),
    );
    let mut folders: BTreeMap<&str, Vec<&DumpFile>> = BTreeMap::new();
    for file in &dumps.files {
        let name = file.file.rsplit_once('/').map_or("", |(name, _)| name);
        folders.entry(name).or_default().push(file);
    }
    for (name, mut files) in folders {
        if !name.is_empty() {
            let count = files.len();
            // Names are days, so the last are the newest.
            files.reverse();
            files.truncate(FOLDER_FILES_MAX);
            let _ = write!(
                content,
                "<h2>{}</h2><p class=soft>The newest {} of {} files.</p>",
                Escaped(name),
                files.len(),
                Count(Some(count as u64))
            );
        }
        content
            .push_str("<table><thead><tr><th>File<th class=n>Size<th class=wide>Changed</thead>");
        content.extend(files.into_iter().map(|file| row(file, folder)));
        content.push_str("</table>");
    }
    let frame = Frame {
        title: "Dumps \u{2013} Island metrics",
        root,
        extra: Extra::Charts,
    };
    frame.around(&content)
}

fn row(file: &DumpFile, folder: &str) -> String {
    let (name, modified) = (Escaped(&file.file), Escaped(&file.modified));
    format!(
        "<tr><td><a href=\"{folder}{name}\">{name}</a><td class=n>{}\
         <td class=wide><time class=ago datetime=\"{modified}\">{modified}</time>",
        size(file.bytes)
    )
}

/// A length in the unit in which it is read.
fn size(bytes: u64) -> String {
    let tenths = |unit: u64, name: &str| {
        let tenths = bytes / (unit / 10);
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => tenths(1_000, "kB"),
        1_000_000..1_000_000_000 => tenths(1_000_000, "MB"),
        _ => tenths(1_000_000_000, "GB"),
    }
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
    fn files_are_links_and_of_days_the_newest_come_first() {
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
        assert!(dumps(b"{}", "../", "").contains("could not be made"));
    }

    #[test]
    fn lengths_are_told_in_the_unit_in_which_they_are_read() {
        let told = [0, 999, 1_000, 14_979, 999_999, 1_000_000, 2_500_000_000].map(size);
        let want = [
            "0 B", "999 B", "1.0 kB", "14.9 kB", "999.9 kB", "1.0 MB", "2.5 GB",
        ];
        assert_eq!(told, want);
    }
}
