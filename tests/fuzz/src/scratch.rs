//! A temporary directory, in memory if possible, and commands of the program that run in this process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

/// Removed with its content when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!(
            "island-metrics-fuzz-{}-{number}",
            std::process::id()
        ));
        fs::create_dir_all(&path).expect("there is room for a directory");
        Scratch(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command of the program, which must succeed.
pub fn run(words: &[&str]) {
    let code = island_metrics::cli::run(words.iter().map(OsString::from));
    assert_eq!(code, ExitCode::SUCCESS, "{words:?}");
}

pub fn publish(scratch: &Scratch, dataset: &str) -> PathBuf {
    let published = scratch.join("published");
    let to = published.to_str().expect("plain");
    let time = ["--generated-at", "2026-11-21T00:00:00Z"];
    run(&[&["publish", "--dataset", dataset, "--to", to], &time[..]].concat());
    published
}
