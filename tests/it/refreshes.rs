//! Incremental publishes: which parts are rendered and which kept; the result is the same as that
//! of a full publish.

use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use crate::prelude::*;

const TIME: &str = "2026-11-21T12:00:00Z";
const LATER: &str = "2026-11-21T12:10:00Z";
const ISLANDS: u64 = 9;

/// Publishes; returns the exit code and stderr.
fn publish(dataset: &Path, published: &Path, time: &str, more: &[&str]) -> (Option<i32>, String) {
    settle();
    let mut publish = publish_command(dataset, published);
    publish.args(["--generated-at", time]).args(more);
    code_and_stderr(publish.output().unwrap())
}

#[track_caller]
fn published(dataset: &Path, published: &Path, time: &str, more: &[&str]) -> String {
    let (code, stderr) = publish(dataset, published, time, more);
    assert_eq!(code, Some(0), "{stderr}");
    stderr
}

/// The payloads and dumps of a directory; of the index only what is independent of earlier
/// publishes.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let published = Published::at(directory);
    let manifest = published.manifest().unwrap();
    for kind in ["history", "live"] {
        let file = manifest[kind]["file"].as_str().unwrap();
        found.insert(file.to_owned(), fs::read(directory.join(file)).unwrap());
    }
    for (name, sum) in published.dumps() {
        let bytes = fs::read(published.dump(&name)).unwrap();
        found.insert(format!("{name} {sum}"), bytes);
    }
    found
}

/// A dataset with random edits.
struct Edited {
    path: PathBuf,
    rng: Rng,
}

impl Edited {
    fn new(path: PathBuf, seed: u64) -> Edited {
        let mut edited = Edited {
            path,
            rng: Rng(seed),
        };
        edited.islands();
        edited.edit("daily/2026-11-19.csv");
        edited.edit("live/1795262400.csv");
        edited
    }

    fn days(&self) -> BTreeSet<String> {
        let folders = ["daily", "ccu"].map(|folder| self.path.join(folder));
        let found = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let names = found.flatten().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.rng.below(end)
    }

    fn islands(&mut self) {
        let mut text = "code,title,creator,createdIn,tags\n".to_owned();
        for island in 0..ISLANDS {
            let (title, creator) = (self.below(3), self.below(3));
            let row = format!("1111-1111-111{island},T{title},c{creator},uefn,pvp\n");
            text.push_str(&row);
        }
        write_file(&self.path.join("islands.csv"), &text);
    }

    fn row(&mut self, name: &str, island: u64) -> String {
        let figure = self.below(9);
        match name.split('/').next().unwrap() {
            "daily" => format!("1111-1111-111{island},{figure},2,3,4,5,6,1.5,,\n"),
            _ => format!("1111-1111-111{island},{figure}\n"),
        }
    }

    /// Rewrites a file of rows.
    fn edit(&mut self, name: &str) {
        let header = match name.split('/').next().unwrap() {
            "daily" => DAILY,
            "live" => "code,players\n",
            _ => "code,peakCCU\n",
        };
        let mut text = header.to_owned();
        for island in 0..ISLANDS {
            if self.below(2) == 0 {
                text += &self.row(name, island);
            }
        }
        write_file(&self.path.join(name), &text);
    }

    /// Makes a random edit.
    fn turn(&mut self) {
        let names = words(
            "daily/2026-11-18.csv daily/2026-11-19.csv daily/2026-11-20.csv ccu/2026-11-17.csv \
             ccu/2026-11-18.csv live/1795261800.csv live/1795262400.csv live/1795263000.csv",
        );
        let count = names.len() as u64;
        let pick = |at: u64| names[usize::try_from(at).unwrap()];
        let (name, other) = (pick(self.below(count)), pick(self.below(count)));
        let (path, other_path) = (self.path.join(name), self.path.join(other));
        match self.below(9) {
            0 => self.islands(),
            1 => drop(fs::remove_file(path)),
            2 if path.exists() => {
                // Same length and mtime, but other bytes.
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                let text = fs::read_to_string(&path).unwrap();
                write_file(&path, &text.replace(",1\n", ",7\n").replace(",2\n", ",1\n"));
                let file = File::options().write(true).open(&path).unwrap();
                file.set_modified(modified).unwrap();
            }
            3 if name != other
                && path.exists()
                && other_path.exists()
                && name[..4] == other[..4] =>
            {
                // Two files are exchanged.
                let aside = self.path.join("aside");
                fs::rename(&path, &aside).unwrap();
                fs::rename(&other_path, &path).unwrap();
                fs::rename(&aside, &other_path).unwrap();
            }
            4 if path.exists() => {
                let file = File::options().write(true).open(&path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000))
                    .unwrap();
            }
            5 => {
                let figure = self.below(50);
                let text = format!("time,players\n1795262400,{figure}\n");
                write_file(&self.path.join("platform.csv"), &text);
            }
            6 => drop(fs::remove_file(self.path.join("platform.csv"))),
            7 => {
                let followers = self.below(3);
                let text = format!("slug,followers\nc1,{followers}\n");
                write_file(&self.path.join("creators.csv"), &text);
            }
            _ => self.edit(name),
        }
    }
}

#[test]
fn a_refresh_publishes_what_a_publish_from_nothing_does() {
    let dir = TempDir::new();
    for seed in 1..=if is_slow() { 8 } else { 2 } {
        let mut dataset = Edited::new(dir.join(&format!("dataset-{seed}")), seed);
        let refreshed = dir.join(&format!("refreshed-{seed}"));
        let fresh = dir.join(&format!("fresh-{seed}"));
        let mut days = BTreeSet::new();
        for round in 0..15 {
            // The same time for all, so that kept parts have the time of rendered ones.
            let (code, stderr) = publish(&dataset.path, &refreshed, TIME, &[]);
            let has_fewer = !days.is_subset(&dataset.days());
            let want = if has_fewer { 65 } else { 0 };
            assert_eq!(code, Some(want), "seed {seed} round {round}: {stderr}");
            if has_fewer {
                published(&dataset.path, &refreshed, TIME, &["--force"]);
            }
            days = dataset.days();
            let _ = fs::remove_dir_all(&fresh);
            published(&dataset.path, &fresh, TIME, &[]);
            let (kept, new) = (contents(&refreshed), contents(&fresh));
            let names = |of: &BTreeMap<String, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
            assert_eq!(
                names(&kept),
                names(&new),
                "seed {seed} round {round}: {stderr}"
            );
            assert!(kept == new, "seed {seed} round {round}: {stderr}");
            let (again, dumps) = (dir.join("again"), dir.join("dumps"));
            let _ = fs::remove_dir_all(&dumps);
            Published::at(&refreshed).copy_dumps(&dumps);
            published(&dumps, &again, TIME, &["--force"]);
            assert!(
                contents(&again) == new,
                "seed {seed} round {round}, from its dumps"
            );
            for _ in 0..=dataset.below(3) {
                dataset.turn();
            }
        }
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// The file of a payload, or the index of the dumps.
fn payload(published: &Path, kind: &str) -> PathBuf {
    let manifest = Published::at(published).manifest().unwrap();
    published.join(manifest[kind]["file"].as_str().unwrap())
}

/// A dataset that is published once, and where to.
fn first_publish() -> (TempDir, Edited, PathBuf) {
    let dir = TempDir::new();
    let dataset = Edited::new(dir.join("dataset"), 1);
    let to = dir.join("published");
    published(&dataset.path, &to, TIME, &[]);
    (dir, dataset, to)
}

#[test]
fn a_live_file_more_rewrites_the_live_payload_and_its_own_dump() {
    let (_dir, mut dataset, to) = first_publish();
    let history = payload(&to, "history");
    let before = inode(&history);
    let place = || Published::at(&to).dump("daily/2026-11-19.json.gz");
    let (dump, dump_inode) = (place(), inode(&place()));
    dataset.edit("live/1795263000.csv");
    let stderr = published(&dataset.path, &to, LATER, &[]);
    let line = stderr.lines().next().unwrap();
    assert_eq!(
        line,
        format!(
            "history: kept from {TIME}, no input changed; \
             live: rendered; dumps: 3 of 4 tables kept"
        )
    );
    assert_eq!(
        (payload(&to, "history"), inode(&history)),
        (history, before)
    );
    assert_eq!((place(), inode(&dump)), (dump, dump_inode));
    assert!(Published::at(&to).dump("live/1795263000.csv.gz").exists());
    // And everything with `--full`.
    for (flag, reason) in [
        ("--full", "--full was given"),
        ("--force", "--force was given"),
    ] {
        let stderr = published(&dataset.path, &to, LATER, &[flag]);
        has(&stderr, &format!("history: rendered, {reason}"));
        assert!(stderr.contains("dumps: 0 of 4 tables kept"), "{stderr}");
    }
}

#[test]
fn a_file_that_was_read_within_the_tick_of_its_last_write_is_compared_as_changed() {
    let (_dir, dataset, to) = first_publish();
    let list = to.join("sources.json");
    let mut sources: Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    let stamp = sources["files"]["islands.csv"].take();
    assert!(stamp.is_object(), "{stamp}");
    write_file(&list, &sources.to_string());
    let stderr = published(&dataset.path, &to, LATER, &[]);
    assert!(
        stderr.starts_with("history: rendered, islands.csv differs; live: rendered;"),
        "{stderr}"
    );
    // The list has its stamp again.
    let stderr = published(&dataset.path, &to, LATER, &[]);
    assert!(stderr.starts_with("history: kept from"), "{stderr}");
}

#[test]
fn a_fault_that_only_an_unchanged_file_shows_is_found() {
    for name in [
        "live/1795261800.csv",
        "live/1795262400.csv",
        "ccu/2026-11-17.csv",
    ] {
        let dir = TempDir::new();
        let dataset = Edited::new(dir.join("dataset"), 1);
        let to = dir.join("published");
        let islands = dataset.path.join("islands.csv");
        let text = fs::read_to_string(&islands).unwrap();
        write_file(&islands, &format!("{text}9999-9999-9999,Lone,c0,uefn,\n"));
        let header = if name.starts_with("live") {
            "players"
        } else {
            "peakCCU"
        };
        write_file(
            &dataset.path.join(name),
            &format!("code,{header}\n9999-9999-9999,5\n"),
        );
        published(&dataset.path, &to, TIME, &[]);
        write_file(&islands, &text);
        let (code, stderr) = publish(&dataset.path, &to, LATER, &[]);
        assert_eq!(code, Some(65), "{name}: {stderr}");
        assert!(stderr.contains(&format!("{name}:2:1")), "{stderr}");
    }
}

#[test]
fn a_manifest_that_is_lost_costs_nothing_until_the_next_good_publish() {
    let (_dir, dataset, to) = first_publish();
    let manifest = fs::read_to_string(to.join("manifest.json")).unwrap();
    write_file(&to.join("manifest.json"), "{");
    write_file(&dataset.path.join("creators.csv"), "no slug\n");
    assert_eq!(publish(&dataset.path, &to, LATER, &[]).0, Some(65));
    write_file(&to.join("manifest.json"), &manifest);
    Published::at(&to).is_sound();
}

#[test]
fn dumps_are_written_again_if_the_index_is_not_the_one_written() {
    let (_dir, dataset, to) = first_publish();
    let index = payload(&to, "dumps");
    let text = fs::read_to_string(&index).unwrap();
    let at = text.find("\"sha256\": \"").unwrap() + 11;
    let other = if text[at..].starts_with('0') {
        "1"
    } else {
        "0"
    };
    write_file(
        &index,
        &format!("{}{other}{}", &text[..at], &text[at + 1..]),
    );
    published(&dataset.path, &to, LATER, &[]);
    Published::at(&to).is_sound();
}

#[test]
fn changed_bytes_always_have_a_later_modification_time() {
    let (_dir, mut dataset, to) = first_publish();
    let modified = |name: &str| {
        let index = fs::read(payload(&to, "dumps")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let files = index["files"].as_array().unwrap().clone();
        let file = files.into_iter().find(|file| file["file"] == name).unwrap();
        file["modified"].as_str().unwrap().to_owned()
    };
    assert_eq!(modified("islands.csv"), TIME);
    dataset.islands();
    published(&dataset.path, &to, TIME, &[]);
    assert_eq!(modified("islands.csv"), "2026-11-21T12:00:01Z");
    assert_eq!(modified("live/1795262400.csv"), TIME);
}
