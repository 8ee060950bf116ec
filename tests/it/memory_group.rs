//! A memory cgroup for processes under test, by either version of the kernel's interface.

use std::io;

use crate::prelude::*;

/// A group with a limit, removed when dropped. Processes in it must have ended by then.
pub(crate) struct MemoryGroup {
    directory: PathBuf,
    files: &'static Files,
}

/// Names of the files of a version, and of fields in them.
struct Files {
    limit: &'static str,
    swap: (&'static str, &'static str),
    kills: &'static str,
    cached: &'static str,
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: ("memory.swappiness", "0"),
    kills: "memory.oom_control",
    cached: "cache",
};
const V2: Files = Files {
    limit: "memory.max",
    swap: ("memory.swap.max", "0"),
    kills: "memory.events",
    cached: "file",
};

impl MemoryGroup {
    /// A group below this process's own or beside it; an error text if none can be made.
    pub(crate) fn new() -> Result<MemoryGroup, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let below = |root: &str, prefix: &str| -> Option<PathBuf> {
            let path = own.lines().find_map(|line| line.split_once(prefix))?.1;
            let own = Path::new(root).join(path.trim_start_matches('/'));
            // In a container the hierarchy may begin at its own group, under another name.
            Some(if own.is_dir() { own } else { root.into() })
        };
        let v1 = below("/sys/fs/cgroup/memory", ":memory:");
        let v2 = below("/sys/fs/cgroup", "0::");
        let mut places: Vec<(PathBuf, &Files)> = Vec::new();
        places.extend(v1.map(|own| (own, &V1)));
        if let Some(own) = v2 {
            let beside = own.parent().map(|parent| (parent.to_owned(), &V2));
            places.push((own, &V2));
            places.extend(beside);
        }
        let name = format!("island-metrics-it-{}", std::process::id());
        let mut missing = "no memory cgroup is mounted".to_owned();
        for (place, files) in places {
            let directory = place.join(&name);
            match fs::create_dir(&directory) {
                // Without the controller the directory is created all the same.
                Ok(()) if directory.join(files.limit).exists() => {
                    return Ok(MemoryGroup { directory, files });
                }
                Ok(()) => {
                    fs::remove_dir(&directory).unwrap();
                    missing = format!("{} controls no memory", place.display());
                }
                Err(error) => missing = format!("{}: {error}", directory.display()),
            }
        }
        Err(missing)
    }

    /// Limits the memory of its processes and of the page cache charged to them.
    pub(crate) fn limit_to(&self, bytes: u64) {
        self.write(self.files.limit, &bytes.to_string()).unwrap();
        let (file, value) = self.files.swap;
        let _a_machine_without_swap_may_have_no_such_file = self.write(file, value);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of the kernel's is no file on a disk"
    )]
    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.directory.join(file), value)
    }

    /// The command, run in the group.
    pub(crate) fn around(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.directory.join("cgroup.procs"))
            .arg(inner.get_program())
            .args(inner.get_args())
            .stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Bytes of page cache charged to the group.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.figure("memory.stat", self.files.cached)
    }

    /// Number of its processes killed by the system for lack of memory.
    pub(crate) fn kills(&self) -> u64 {
        self.figure(self.files.kills, "oom_kill")
    }

    fn figure(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.directory.join(file)).unwrap();
        let figure = text.lines().find_map(|line| {
            let (found, figure) = line.split_once(' ')?;
            (found == name).then(|| figure.parse().unwrap())
        });
        figure.unwrap_or_else(|| panic!("no {name} in {file}: {text}"))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just exited may still be in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
