//! Figures of this process, from `/proc`, where there is one.

use std::fs;

use super::{Exposition, Kind};

/// Ticks in a second of `/proc/self/stat`: `USER_HZ` is 100 on every Linux.
const TICKS: f64 = 100.0;

/// What the system says of this process. What it does not say is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    threads: Option<u64>,
    descriptors: Option<u64>,
    descriptors_max: Option<u64>,
}

impl ProcessFigures {
    /// The figures now.
    pub fn read() -> ProcessFigures {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut figures = ProcessFigures::parse(
            &text("/proc/self/stat"),
            &text("/proc/self/status"),
            &text("/proc/stat"),
        );
        figures.descriptors = fs::read_dir("/proc/self/fd")
            .ok()
            // One is the directory's own.
            .map(|open| (open.count() as u64).saturating_sub(1));
        figures.descriptors_max = descriptors_max();
        figures
    }

    fn parse(stat: &str, status: &str, system: &str) -> ProcessFigures {
        // The name in parentheses may hold anything; fields are counted from behind it.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| {
            rest.split_ascii_whitespace().collect()
        });
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let booted = system.lines().find_map(|line| line.strip_prefix("btime "));
        let booted = booted.and_then(|text| text.trim().parse::<f64>().ok());
        ProcessFigures {
            cpu_seconds: ticks(11)
                .zip(ticks(12))
                .map(|(user, system)| (user + system) / TICKS),
            start_seconds: booted
                .zip(ticks(19))
                .map(|(booted, since)| booted + since / TICKS),
            resident_bytes: figure("VmRSS:").map(|kib| kib * 1024),
            threads: figure("Threads:"),
            ..ProcessFigures::default()
        }
    }

    /// Writes them by the names that all Prometheus clients use.
    pub fn write(&self, page: &mut Exposition) {
        if let Some(seconds) = self.cpu_seconds {
            let help = "User and system time, in seconds.";
            page.single("process_cpu_seconds_total", Kind::Counter, help, seconds);
        }
        if let Some(seconds) = self.start_seconds {
            let help = "When the process was started, in Unix seconds.";
            page.single("process_start_time_seconds", Kind::Gauge, help, seconds);
        }
        for (name, help, figure) in [
            (
                "process_resident_memory_bytes",
                "Memory in use.",
                self.resident_bytes,
            ),
            ("process_threads", "Threads.", self.threads),
            ("process_open_fds", "Open descriptors.", self.descriptors),
            (
                "process_max_fds",
                "Descriptors that may be open.",
                self.descriptors_max,
            ),
        ] {
            if let Some(figure) = figure {
                page.single(name, Kind::Gauge, help, figure);
            }
        }
    }
}

/// How many descriptors this process may have open, where the system tells.
pub fn descriptors_max() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_behind_a_name_that_tries_to_look_like_them() {
        let stat = "7 (a) b ) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 1000 20";
        let status = "Name:\ta\nVmRSS:\t   12 kB\nThreads:\t3\n";
        let figures = ProcessFigures::parse(stat, status, "cpu 1\nbtime 1700000000\n");
        let want = ProcessFigures {
            cpu_seconds: Some(3.0),
            start_seconds: Some(1_700_000_010.0),
            resident_bytes: Some(12 << 10),
            threads: Some(3),
            ..ProcessFigures::default()
        };
        assert_eq!(figures, want);
        let nothing = ProcessFigures::parse("", "", "");
        assert_eq!(nothing, ProcessFigures::default());
    }

    #[test]
    fn this_process_has_figures() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            return;
        }
        let figures = ProcessFigures::read();
        assert!(figures.resident_bytes > Some(1 << 20), "{figures:?}");
        assert!(figures.descriptors < figures.descriptors_max);
        let now = crate::calendar::UnixSeconds::now();
        assert!(figures.start_seconds.is_some_and(|start| start > 1.7e9));
        assert!(now.0 > 0);
    }
}
