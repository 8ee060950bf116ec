//! Commands run under strace: their system calls, and injected failures and kills. Without strace
//! these tests print what to install and pass.

use std::collections::HashMap;

use crate::prelude::*;

/// The system calls on files. A question mark: not every machine has it.
const CALLS: &str = "?open,?creat,openat,?openat2,read,pread64,?readv,write,pwrite64,?writev,\
    ?sendfile,?copy_file_range,fsync,fdatasync,?syncfs,?sync_file_range,?rename,?renameat,renameat2,\
    ?link,linkat,?symlink,symlinkat,?readlink,readlinkat,?mkdir,mkdirat,?unlink,unlinkat,?rmdir,\
    close,ftruncate,?truncate,?fallocate,lseek,statx,?newfstatat,?fstat,?stat,?lstat,getdents64,\
    flock,?fchown,?fchownat,?fchmod,?chmod,?fchmodat,?utimensat";

/// A system call as logged by strace.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Such as `openat`.
    pub(crate) name: String,
    /// Its number among the calls of this name by its thread, from 1.
    pub(crate) number: u32,
    /// Arguments and result; file descriptors with their paths.
    pub(crate) text: String,
}

impl Call {
    /// Whether this path or one below it is an argument, as one text or as a directory and a name.
    pub(crate) fn is_about(&self, path: &Path) -> bool {
        let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let beneath = format!("<{}>, \"{}", directory.display(), name.display());
        self.text.contains(path.to_str().unwrap()) || self.text.contains(&beneath)
    }

    /// Whether strace injected its failure.
    pub(crate) fn was_injected(&self) -> bool {
        self.text.ends_with("(INJECTED)")
    }
}

/// Runs commands under strace.
pub(crate) struct Tracer(TempDir);

impl Tracer {
    /// `None`, after printing a line, if strace is missing or may not trace.
    pub(crate) fn new() -> Option<Tracer> {
        let mut probe = Command::new("strace");
        probe.args(["-f", "-o", "/dev/null", "true"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        if probe.status().is_ok_and(|status| status.success()) {
            return Some(Tracer(TempDir::new()));
        }
        report_skipped("strace that may trace, `apt-get install strace`");
        None
    }

    /// Runs a command; returns its output and its calls in order. `inject` has the syntax of strace:
    /// `fsync:error=EIO:when=3`. With a path, only calls on that are logged.
    pub(crate) fn run(
        &self,
        command: &Command,
        inject: Option<&str>,
        path: Option<&Path>,
    ) -> (Output, Vec<Call>) {
        let log: PathBuf = self.0.join("log");
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-y", "-qqq", "-s", "0", "-e", "signal=none", "-o"])
            .arg(&log)
            .args(["-e", &format!("trace={CALLS}")]);
        if let Some(inject) = inject {
            traced.args(["-e", &format!("inject={inject}")]);
        }
        if let Some(path) = path {
            traced.arg("-P").arg(path);
        }
        traced.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => traced.env(name, value),
                None => traced.env_remove(name),
            };
        }
        let output = traced.stdin(Stdio::null()).output().unwrap();
        (output, calls(&fs::read_to_string(log).unwrap()))
    }
}

/// The calls of a log; a call interrupted by another thread has two lines.
fn calls(log: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut numbers: HashMap<(&str, &str), u32> = HashMap::new();
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for line in log.lines() {
        let (thread, event) = line.split_once(' ').unwrap();
        let event = event.trim_start();
        if let Some(rest) = event.strip_prefix("<... ") {
            // strace may have attached in the middle of a call.
            if let Some(at) = unfinished.remove(thread) {
                let (_, rest) = rest.split_once("resumed>").unwrap();
                calls[at].text.push_str(rest);
            }
            continue;
        }
        let Some((name, arguments)) = event.split_once('(') else {
            continue;
        };
        let number = numbers.entry((thread, name)).or_default();
        *number += 1;
        let whole = arguments.strip_suffix("<unfinished ...>");
        if whole.is_some() {
            unfinished.insert(thread, calls.len());
        }
        calls.push(Call {
            name: name.to_owned(),
            number: *number,
            text: whole.unwrap_or(arguments).to_owned(),
        });
    }
    calls
}

#[test]
fn calls_are_numbered_by_name_and_thread_and_put_together() {
    let log = "7 openat(AT_FDCWD</>, \"/a\", O_RDONLY) = 3</a>\n\
        8 openat(AT_FDCWD</>, \"/b\", O_RDONLY <unfinished ...>\n\
        7 openat(AT_FDCWD</>, \"/c\", O_RDONLY) = 4</c>\n\
        8 <... openat resumed>) = -1 EIO (Input/output error) (INJECTED)\n\
        7 fsync(4</c>) = 0\n\
        7 openat(4</c>, \"d\", O_RDONLY) = -1 ENOENT\n";
    let calls = calls(log);
    let numbers: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.number)).collect();
    assert_eq!(
        numbers,
        [
            ("openat", 1),
            ("openat", 1),
            ("openat", 2),
            ("fsync", 1),
            ("openat", 3)
        ]
    );
    let injected: Vec<_> = calls.iter().map(Call::was_injected).collect();
    assert_eq!(injected, [false, true, false, false, false]);
    assert!(calls[1].is_about(Path::new("/b")) && calls[3].is_about(Path::new("/c")));
    assert!(calls[4].is_about(Path::new("/c/d")) && !calls[4].is_about(Path::new("/c/e")));
}
