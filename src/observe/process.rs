//! Metrics of this process, from `/proc`, and of its build. There is no sample where the system does not
//! report the value.

use std::fmt::Display;
use std::fs;
use std::str::FromStr;

use super::exposition::{Exposition, Metric, metrics};

/// Clock ticks per second in `/proc/self/stat`: `USER_HZ` is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) const METRICS: &[Metric<fn(&mut Exposition)>] = metrics! {
    Gauge "island_metrics_build_info"
        "Version and commit of this build; the value is always 1."
        |page| {
            let version = ("version", &env!("CARGO_PKG_VERSION") as &dyn Display);
            page.sample(&[version, ("commit", &env!("BUILD_COMMIT"))], 1);
        };
    Counter "process_cpu_seconds_total"
        "User and system CPU time, in seconds."
        |page| page.optional(cpu_seconds());
    Gauge "process_start_time_seconds"
        "Start time of the process, in Unix seconds."
        |page| page.optional(start_seconds());
    Gauge "process_resident_memory_bytes"
        "Resident memory size, in bytes."
        |page| page.optional(line("/proc/self/status", "VmRSS:").map(|kib: u64| kib * 1024));
    Gauge "process_threads"
        "Number of OS threads."
        |page| page.optional(line::<u64>("/proc/self/status", "Threads:"));
    Gauge "process_open_fds"
        "Number of open file descriptors."
        |page| {
            let open = fs::read_dir("/proc/self/fd").map(Iterator::count);
            // Without the descriptor of the directory itself.
            page.optional(open.ok().map(|open| open.saturating_sub(1)));
        };
    Gauge "process_max_fds"
        "Maximum number of open file descriptors."
        |page| page.optional(max_fds());
};

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    Some((stat_ticks(&stat, 11)? + stat_ticks(&stat, 12)?) / TICKS_PER_SECOND)
}

fn start_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot: f64 = line("/proc/stat", "btime")?;
    Some(boot + stat_ticks(&stat, 19)? / TICKS_PER_SECOND)
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
        let mut page = Exposition::default();
        page.families(METRICS, |write, page| write(page));
        let page = page.into_text();
        let value = |name: &str| -> f64 {
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(name));
            lines.find_map(|value| value.trim().parse().ok()).unwrap()
        };
        assert!(value("process_resident_memory_bytes") > f64::from(1 << 20));
        assert!(value("process_threads") > 1.0 && value("process_open_fds") > 2.0);
        assert!(value("process_open_fds") < value("process_max_fds"));
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_start_time_seconds") > 1.7e9);
    }
}
