//! The harness, and what most tests use of the standard library.

pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::fmt::Write as _;
pub(crate) use std::fs::{self, File};
pub(crate) use std::io::{BufRead as _, BufReader, Read as _, Write as _};
pub(crate) use std::net::{SocketAddr, TcpListener, TcpStream};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Child, Command, Output, Stdio};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::thread;
pub(crate) use std::time::{Duration, Instant};

pub(crate) use island_metrics::request::Endpoint;
pub(crate) use serde_json::{Value, json};

pub(crate) use crate::admin::{address, metrics};
pub(crate) use crate::canary;
pub(crate) use crate::dataset_versions::{Change, Edition, Editions};
pub(crate) use crate::http::{socket, uninterrupted};
pub(crate) use crate::oracle::World;
pub(crate) use crate::processes::{
    Moments, Running, SetOnDrop, Stopwatch, code_and_stderr, ends_within, is_installed,
    report_skipped, shows, shows_within, signal, stderr_of, wait_for, wait_within,
};
pub(crate) use crate::published::{Published, files, flip, history_file, is_remembered};
pub(crate) use crate::random_dataset::{GENERATED_AT, Rng};
pub(crate) use crate::support::{
    BASE_URL, Client, DAILY, Reply, Server, TempDir, after, change_key, command, has, id, is_slow,
    is_slowest, issue, kills, listed_keys, parts, publish, publish_command, run, set_mode, settle,
    words, write_bytes, write_file,
};
