//! What the process holds in memory, from `/proc/self/status`.

use std::fs;

fn kib(name: &str) -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Resident memory in KiB.
pub(crate) fn resident_kib() -> i64 {
    kib("VmRSS:")
}

/// The most that there ever was.
pub(crate) fn peak_kib() -> i64 {
    kib("VmHWM:")
}
