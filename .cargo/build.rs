//! Passes the commit and the target of the build to the program, for `--version`.
//!
//! Reads the files of git instead of running it: git may not be installed, and a repository that
//! contains an unpacked source archive must not be used.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=.cargo/build.rs");
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    // Set by packagers, who build from an archive.
    let given = env::var_os("BUILD_COMMIT").and_then(|commit| commit.into_string().ok());
    let commit = given
        .filter(|commit| !commit.is_empty())
        .or_else(|| commit(Path::new(".git")))
        .filter(|commit| commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let shown = commit.map_or_else(
        || "unknown".to_owned(),
        |commit| commit.chars().take(12).collect(),
    );
    println!("cargo::rustc-env=BUILD_COMMIT={shown}");
    let target = env::var_os("TARGET").unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=BUILD_TARGET={}", target.display());
}

/// The commit of HEAD. Cargo runs this script again when HEAD changes.
fn commit(git: &Path) -> Option<String> {
    let git = match fs::read_to_string(git) {
        // A linked work tree: the file names the git directory.
        Ok(text) => PathBuf::from(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git.to_path_buf(),
    };
    let head = read(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(head);
    };
    let shared = read(&git.join("commondir")).map_or_else(|| git.clone(), |path| git.join(path));
    let loose = shared.join(name);
    read(&loose).or_else(|| {
        // The ref is packed. The next commit creates its file, so the directory above is watched: watching
        // a missing file would run this script in every build.
        watch(loose.ancestors().find(|path| path.exists())?);
        let packed = read(&shared.join("packed-refs"))?;
        let mut refs = packed.lines().filter_map(|line| line.split_once(' '));
        refs.find_map(|(commit, of)| (of == name).then(|| commit.to_owned()))
    })
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    watch(path);
    Some(text.trim().to_owned())
}

fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
