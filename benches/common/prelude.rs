//! The harness, and what most benches use of the standard library.
#![allow(unused_imports, reason = "each bench uses a part of it")]

pub(crate) use std::fmt::Write as _;
pub(crate) use std::io::{self, Read as _, Write as _};
pub(crate) use std::net::{Ipv4Addr, SocketAddr, TcpStream};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::Command;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::time::{Duration, Instant};
pub(crate) use std::{env, fs, thread};

pub(crate) use crate::common::histogram::Histogram;
pub(crate) use crate::common::http::{
    GZIP, Head, Response, connect, exchange_on, fetch, found, get, read_available, require_ok, text,
};
pub(crate) use crate::common::loops::{Requests, closed, open};
pub(crate) use crate::common::pool::{Pool, Sources, register, wait};
pub(crate) use crate::common::process::{
    Scratch, Server, Usage, command, free_address, installed, pin_load, raise_limit, reference,
    run, status_kib, write_file,
};
pub(crate) use crate::common::random::Random;
pub(crate) use crate::common::requests::values;
pub(crate) use crate::common::stats::{
    in_turns, largest, median, median_ratio, nanos_each, sorted,
};
pub(crate) use crate::common::world::{
    self, GENERATED_AT, MEDIUM, TINY, publish_command, synthesize,
};
pub(crate) use crate::common::{
    Outcome, SERVER_CORE, STALL, bare, beside, full_or_quick, in_parallel, is_quick, wait_for,
};
