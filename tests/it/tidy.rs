//! Structure of the source: short files, imports that point down. Clippy limits functions, see `.clippy.toml`.

use std::cell::RefCell;

use crate::prelude::*;

/// The modules of `src`, top row first; a module may import modules of lower rows only.
const ROWS: [&[&str]; 8] = [
    &["cli"],
    &["server", "publish", "collect"],
    &["admin", "signup", "snapshot", "shared"],
    &["site"],
    &["request", "dataset", "keys", "quota", "observe"],
    &["model", "tls"],
    &["calendar", "durable", "regular_file"],
    &["sync"],
];

const FILE_LINES_MAX: usize = 400;

fn row(module: &str) -> Option<usize> {
    ROWS.iter().position(|modules| modules.contains(&module))
}

/// Ends of the paths that heads name.
const PATH_ENDS: [&str; 5] = [".rs", ".md", ".py", ".html", ".yml"];

/// Paths in the head of a file that lead to no file. The rule is in `src/lib.rs`.
fn dead_paths(path: &str, source: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let src = root.join("src");
    let folders = [&src.join(path).with_file_name(""), &src, root];
    let heads = source.lines().filter(|line| line.starts_with("//!"));
    let named = heads.flat_map(|line| line.split('`').skip(1).step_by(2));
    let paths = named.filter(|named| PATH_ENDS.iter().any(|end| named.ends_with(end)));
    let dead = paths.filter(|named| folders.iter().all(|folder| !folder.join(named).exists()));
    dead.map(|named| format!("{path}: its head names {named}, which does not exist"))
        .collect()
}

/// The module of a file: `snapshot` of `snapshot/file.rs`, `model` of `model.rs`.
fn module(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap()
}

/// A line, empty if it is a comment.
fn code(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        ""
    } else {
        line
    }
}

/// Whether the code contains a word, not as a part of a longer word.
pub(crate) fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

/// Imports of modules that are not in a lower row.
fn upward_imports(path: &str, source: &str) -> Vec<String> {
    let Some(here) = row(module(path)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        for (at, word) in code(line).match_indices("crate::") {
            let named = line[at + word.len()..]
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap();
            // Tests may publish and serve what they read.
            let is_of_test = path.ends_with("_tests.rs") && ["publish", "server"].contains(&named);
            // Imports within a module are allowed.
            let below = named == module(path) || row(named).is_some_and(|there| there > here);
            if !below && !is_of_test {
                found.push(format!("{path}:{number}: {} names {named}", module(path)));
            }
        }
    }
    found
}

/// The modules that a file names by `crate`, `super` or `self`, each from the root of the crate, with what follows:
/// `["snapshot", "file", "SnapshotFile"]`. Tests in the file do not count.
fn named_paths(module: &[&str], source: &str) -> Vec<Vec<String>> {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let text: String = source[..end]
        .lines()
        .map(|line| code(line).to_owned() + " ")
        .collect();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with(is_path) {
                continue;
            }
            let rest = &text[at..];
            let path = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
            let mut from: Vec<&str> = module.to_vec();
            let mut steps = path.split("::").filter(|step| !step.is_empty()).peekable();
            while let Some(step) = steps.next_if(|step| ["crate", "super", "self"].contains(step)) {
                match step {
                    "crate" => from.clear(),
                    "super" => drop(from.pop()),
                    _ => {}
                }
            }
            let path: Vec<String> = from.into_iter().chain(steps).map(str::to_owned).collect();
            // A group of names has each of them as its last step.
            let group = rest[rest.find(|c| !is_path(c)).unwrap_or(rest.len())..].strip_prefix('{');
            let group = group.map_or("", |group| group.split('}').next().unwrap());
            let names = group
                .split(|c: char| !is_path(c))
                .filter(|name| !name.is_empty());
            found.extend(names.map(|name| {
                let first = name.split(':').next().unwrap().to_owned();
                [path.clone(), vec![first]].concat()
            }));
            found.push(path);
        }
    }
    found
}

/// Files that name each other in a circle, given as paths and sources: each circle once, as its files.
fn circles(files: &[(String, String)]) -> Vec<String> {
    fn steps(path: &str) -> Vec<&str> {
        path.trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .split('/')
            .collect()
    }
    let modules: BTreeMap<Vec<&str>, &str> = files
        .iter()
        .map(|(path, _)| (steps(path), path.as_str()))
        .collect();
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, source) in files {
        let here = steps(path);
        for named in named_paths(&here, source) {
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            let longest = (1..=named.len())
                .rev()
                .find_map(|length| modules.get_key_value(&named[..length]));
            // The head of a folder names its files, and these are named through it.
            if let Some((module, file)) = longest
                && !module.starts_with(&here)
                && !here.starts_with(module)
            {
                edges.entry(path).or_default().insert(file);
            }
        }
    }
    let reachable = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut left: Vec<&str> = edges.get(start).into_iter().flatten().copied().collect();
        while let Some(file) = left.pop() {
            if seen.insert(file) {
                left.extend(edges.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = files
        .iter()
        .map(|(path, _)| (path.as_str(), reachable(path)))
        .collect();
    let circle = |path: &str| {
        let others = reached[path]
            .iter()
            .filter(|other| reached[**other].contains(path));
        others.copied().collect::<Vec<_>>().join(" ")
    };
    let found: BTreeSet<String> = files.iter().map(|(path, _)| circle(path)).collect();
    found
        .into_iter()
        .filter(|circle| !circle.is_empty())
        .collect()
}

/// Words of one module, used in another.
fn strays(path: &str, source: &str) -> Vec<String> {
    const WORDS: [(&str, &str); 5] = [
        (
            "server/ collect/ admin.rs shared/ quota/lease/ signup/mailer.rs tls/",
            "hyper hyper_util tokio http_body_util",
        ),
        (
            // The test reports which program it needs.
            "cli/ shared/store_tests.rs",
            "println! eprintln! print! eprint! process::exit",
        ),
        ("site/", "minijinja"),
        // The mailer uses those of the program that it runs.
        ("cli/ signup/mailer.rs", "stdout stderr"),
        ("", "dbg!"),
    ];
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        for (homes, banned) in WORDS {
            let at_home = words(homes).iter().any(|home| path.starts_with(home));
            let mut banned = words(banned);
            banned.retain(|word| !at_home && names(code(line), word));
            for word in banned {
                found.push(format!("{path}:{number}: {word}"));
            }
        }
    }
    found
}

/// Unsafe code outside the audited file.
fn stray_unsafe(path: &str, source: &str) -> Vec<String> {
    let lines = (1..).zip(source.lines());
    lines
        .filter(|(_, line)| path != "quota/mapped.rs" && names(code(line), "unsafe"))
        .map(|(number, _)| format!("{path}:{number}: unsafe"))
        .collect()
}

/// Files over the limit.
fn too_long(path: &str, source: &str) -> Vec<String> {
    let count = source.lines().count();
    let is_long = count > FILE_LINES_MAX;
    is_long
        .then(|| format!("{path}: {count} lines"))
        .into_iter()
        .collect()
}

/// Runs a check over every file under `src`.
fn everywhere(check: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut directories = vec![root.clone()];
    let (mut found, mut files) = (Vec::new(), 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                found.extend(check(name, &fs::read_to_string(&path).unwrap()));
                files += 1;
            }
        }
    }
    assert!(files > 30, "only {files} files under {}", root.display());
    found
}

#[track_caller]
fn none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    // Table-driven tests have a row for each case.
    none(&everywhere(|path, source| {
        if path.ends_with("_tests.rs") {
            Vec::new()
        } else {
            too_long(path, source)
        }
    }));
}

#[test]
fn paths_in_heads_exist() {
    none(&everywhere(dead_paths));
}

#[test]
fn imports_point_down() {
    none(&everywhere(upward_imports));
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    thread_local! {
        static FILES: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    }
    everywhere(|path, source| {
        if !path.ends_with("tests.rs") {
            FILES.with_borrow_mut(|files| files.push((path.to_owned(), source.to_owned())));
        }
        Vec::new()
    });
    let files = FILES.take();
    assert!(files.len() > 100, "{}", files.len());
    none(&circles(&files));
}

#[test]
fn circles_of_files_are_found() {
    let file = |path: &str, source: &str| (path.to_owned(), source.to_owned());
    let mut files = vec![
        file("m/mod.rs", "mod a; mod b; use a::A;"),
        file("m/a.rs", "use super::b::B;\nuse crate::n::N;"),
        file("m/b.rs", "use super::{c::C, d};\n// use super::a::A;"),
        file(
            "m/c.rs",
            "pub struct C;\n#[cfg(test)]\nmod tests { use super::super::a::A; }",
        ),
        file("m/d.rs", ""),
        file("n.rs", "pub struct N;"),
    ];
    assert_eq!(circles(&files), [""; 0]);
    files[3].1 = "fn f() { crate::m::a::g() }".to_owned();
    assert_eq!(circles(&files), ["m/a.rs m/b.rs m/c.rs"]);
    files[3].1.clear();
    files[4].1 = "use super::b::{B, C};".to_owned();
    assert_eq!(circles(&files), ["m/b.rs m/d.rs"]);
}

#[test]
fn the_top_level_has_only_the_known_names() {
    const KNOWN: &str = "Cargo.lock Cargo.toml README.md benches data src target tests";
    let entries = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others: Vec<String> = names
        .filter(|name| !name.starts_with('.') && !words(KNOWN).contains(&name.as_str()))
        .collect();
    none(&others);
}

#[test]
fn every_module_is_in_the_list_of_rows() {
    none(&everywhere(|path, _| {
        let known = row(module(path)).is_some() || ["lib.rs", "main.rs"].contains(&path);
        if known {
            Vec::new()
        } else {
            vec![format!("{path}: in no row")]
        }
    }));
}

#[test]
fn sockets_and_printing_stay_in_their_modules() {
    none(&everywhere(strays));
}

#[test]
fn unsafe_code_is_in_one_file() {
    none(&everywhere(stray_unsafe));
    let source = "unsafe { f() }\n// unsafe\nlet unsafe_x = 1;\n";
    assert_eq!(stray_unsafe("quota/word.rs", source).len(), 1);
}

/// The counters of workers that a source adds to.
fn counted(_: &str, source: &str) -> Vec<String> {
    let source: String = source.split_whitespace().collect();
    let rest = source.split(".counters.").skip(1);
    let names = rest.filter_map(|rest| Some(rest.split_once(".add(")?.0.to_owned()));
    names.collect()
}

#[test]
fn every_counter_of_workers_is_counted() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/observe/worker_metrics.rs");
    let source = fs::read_to_string(path).unwrap();
    let (_, rows) = source.split_once("\nworker_counters! {\n").unwrap();
    let (rows, _) = rows.split_once("\n}\n").unwrap();
    let names = rows
        .lines()
        .filter_map(|row| Some(row.split_once(" \"")?.0.trim()));
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 3, "{names:?}");
    let counted = everywhere(counted);
    let never = names
        .iter()
        .filter(|name| !counted.iter().any(|one| one == *name));
    let never = never.map(|name| format!("observe/worker_metrics.rs: nothing adds to {name}"));
    none(&never.collect::<Vec<_>>());
}

#[test]
fn the_checks_report_a_made_up_source_that_breaks_them() {
    let source = "//! `word.rs`, `quota/mod.rs`, `tests/it/tidy.rs`, `zonk.rs`,\n//! `quota/zonk.md`\n// `y.rs`\n";
    assert_eq!(dead_paths("quota/word.rs", source).len(), 2);
    let source = "use crate::snapshot::Body;\nuse crate::quota;\nuse crate::calendar::UtcDay;\n";
    assert_eq!(
        upward_imports("request/made_up.rs", source),
        [
            "request/made_up.rs:1: request names snapshot",
            "request/made_up.rs:2: request names quota"
        ]
    );
    let source = "use tokio::net;\nfn f() { println!(); eprint!(\"\") }\n// tokio\n";
    assert_eq!(strays("model.rs", source).len(), 3);
    assert_eq!(strays("server/made_up.rs", "use tokio::net;").len(), 0);
    assert_eq!(
        too_long("model.rs", &"// x\n".repeat(FILE_LINES_MAX + 1)).len(),
        1
    );
}
