//! Metrics of this process, from `/proc`. `None`: the system does not report the value.

use std::fs;
use std::str::FromStr;

/// Clock ticks per second in `/proc/self/stat`: `USER_HZ` is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the user and system CPU time.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    Some((stat_ticks(&stat, 11)? + stat_ticks(&stat, 12)?) / TICKS_PER_SECOND)
}

/// Returns the start time in Unix seconds.
pub(crate) fn start_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot: f64 = line("/proc/stat", "btime")?;
    Some(boot + stat_ticks(&stat, 19)? / TICKS_PER_SECOND)
}

/// Returns the size of the resident memory.
pub(crate) fn resident_bytes() -> Option<u64> {
    line("/proc/self/status", "VmRSS:").map(|kib: u64| kib * 1024)
}

/// Returns the number of threads.
pub(crate) fn threads() -> Option<u64> {
    line("/proc/self/status", "Threads:")
}

/// Returns the number of open file descriptors.
pub(crate) fn open_fds() -> Option<usize> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    // Without the descriptor of the directory itself.
    Some(open.saturating_sub(1))
}

/// Returns the limit of open file descriptors; `None` also if there is no limit.
pub(crate) fn max_fds() -> Option<u64> {
    line("/proc/self/limits", "Max open files")
}

/// A field of `/proc/self/stat` that counts ticks. Fields are numbered from the end of the
/// program's name, which is in parentheses and can contain any character.
fn stat_ticks(stat: &str, field: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(field)?.parse().ok()
}

/// The first value of the line that starts with `name`.
fn line<T: FromStr>(path: &str, name: &str) -> Option<T> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_that_looks_like_them() {
        let stat = "7 (a) b ) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 1000 20";
        let ticks = [11, 12, 19].map(|field| stat_ticks(stat, field));
        assert_eq!(ticks, [Some(250.0), Some(50.0), Some(1000.0)]);
        assert_eq!(stat_ticks("", 11), None);
    }

    #[test]
    fn this_process_has_metrics() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            return;
        }
        assert!(resident_bytes() > Some(1 << 20));
        assert!(threads() > Some(1) && open_fds() > Some(2));
        assert!(open_fds().map(|open| open as u64) < max_fds());
        assert!(cpu_seconds().is_some());
        assert!(start_seconds().is_some_and(|start| start > 1.7e9));
    }
}
