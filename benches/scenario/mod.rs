//! Scenarios: the release server under load that validates every response, while something happens
//! to the server. Each prints a report and fails on any fault.
//!
//! | scenario | what happens |
//! | --- | --- |
//! | [`refresh`] | a publish every second |
//! | [`swap`] | one prepared publish replaced by another, at the full size |
//! | [`attack`] | 15,000 hostile connections, floods, no descriptor left |
//! | [`soak`] | everything at once: publishes, keys, reloads, attacks, log rotation |
//!
//! Reading order: `load` (requests and latencies); `feed`, `publisher`, `directory` (a dataset that
//! changes, published again and again); `versions`, `targets`, `body`, `validator`, `trial`
//! (validation, and its self-test); `memory`, `metrics` (what the server uses and reports);
//! `hostile`, `floods` (attackers).
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

mod attack;
mod body;
mod directory;
mod feed;
mod floods;
mod hostile;
mod load;
mod memory;
mod metrics;
mod publisher;
mod refresh;
mod soak;
mod swap;
mod targets;
mod trial;
mod validator;
mod versions;

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::http::get;
use crate::common::process::{
    RAISE_LIMIT, RAISED, Scratch, Server, Usage, pin_load, with_raised_limit,
};
use crate::common::stats::{median, median_ratio};
use crate::common::world::{self, Size, TINY};
use crate::common::{Outcome, histogram, is_quick};
use load::{Flow, Load, Plan, Validate};
use metrics::free_address;
use publisher::{Pace, Publisher};
use targets::{Counts, Target};
use validator::Validator;
use versions::Versions;

/// Connections of a validated load, and the keys they use in turn: what two clients request is
/// cached, and what one requests is not.
const CONNECTIONS: usize = 32;
const KEYS: usize = 4;
/// Sleep of a load at a constant rate, which shares its core with other processes.
const NAP: Duration = Duration::from_micros(200);
/// Faults that are printed.
const PRINTED_MAX: usize = 50;
/// Longest sleep of a thread that has to notice the end.
const POLL: Duration = Duration::from_millis(20);
/// Time for the server to release what it no longer needs.
const SETTLING: Duration = Duration::from_secs(15);
const BASELINE: Duration = Duration::from_secs(5);
/// Time for the server to exit.
const EXITING: Duration = Duration::from_secs(20);

/// How much a run does, by the arguments of the bench.
#[derive(Clone, Copy)]
struct Extent {
    is_quick: bool,
    /// Replaces the length of a full run.
    length: Option<Duration>,
}

/// Runs a scenario by its name, as the arguments of the process require.
pub(crate) fn main(scenario: &str) -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.last().is_none_or(|last| last != RAISED) {
        return with_raised_limit();
    }
    let mut numbers = arguments.iter().filter_map(|word| word.parse().ok());
    let extent = Extent {
        is_quick: is_quick(),
        length: numbers.next().map(Duration::from_secs),
    };
    histogram::check();
    println!("{}; publishes and attackers beside the load", pin_load()?);
    let scratch = Scratch::new()?;
    let (faults, begun) = (Faults::default(), Instant::now());
    match scenario {
        "attack" => attack::run(&extent, &faults),
        "refresh" => refresh::run(&extent, scratch.path(), &faults),
        "soak" => soak::run(&extent, scratch.path(), &faults),
        "swap" => swap::run(&extent, scratch.path(), &faults),
        _ => Err("no such scenario".into()),
    }?;
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    match faults.count() {
        0 => println!("no faults"),
        count => return Err(format!("{count} faults").into()),
    }
    Ok(())
}

/// Faults, printed as they are found.
#[derive(Default)]
struct Faults(Mutex<usize>);

impl Faults {
    fn add(&self, fault: &str) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        if *count <= PRINTED_MAX {
            println!("fault: {fault}");
        }
    }

    fn add_all(&self, faults: impl IntoIterator<Item = String>) {
        faults.into_iter().for_each(|fault| self.add(&fault));
    }

    /// Adds the faults of a load, and prints their number.
    fn add_load(&self, total: &Flow) {
        let (failed, mixed) = (total.failed, total.mixed);
        let all = total.valid + failed + mixed;
        println!("{all} responses validated: {failed} failed, {mixed} of two versions or outdated");
        if failed + mixed > 0 {
            self.add(&format!("{failed} responses failed, {mixed} were mixed"));
        }
    }

    fn count(&self) -> usize {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server that a scenario is about.
struct Subject {
    server: Server,
    address: SocketAddr,
    admin: SocketAddr,
    log: JoinHandle<Vec<String>>,
}

impl Subject {
    /// Starts the release server with an admin listener and as many descriptors as possible.
    fn start(configure: impl FnOnce(&mut Command)) -> Outcome<Subject> {
        let admin = free_address()?;
        let mut server = world::serve(RAISE_LIMIT, |serve| {
            serve.arg("--admin").arg(admin.to_string());
            configure(serve);
        })?;
        Ok(Subject {
            address: server.address,
            admin,
            log: server.collect_log()?,
            server,
        })
    }

    /// Resources that the server uses once at most `descriptors` are open; without a number, after
    /// some time.
    fn settled<V: Validate>(
        &self,
        load: &mut Load<V>,
        descriptors: Option<usize>,
    ) -> Outcome<Usage> {
        let begun = Instant::now();
        loop {
            // A worker releases a replaced snapshot at its next request.
            load.run_for(Duration::from_millis(50))?;
            thread::sleep(Duration::from_millis(500));
            let (usage, elapsed) = (self.server.usage()?, begun.elapsed());
            let is_settled = match descriptors {
                Some(descriptors) => usage.descriptors <= descriptors || elapsed > SETTLING,
                None => elapsed > BASELINE,
            };
            if is_settled {
                return Ok(usage);
            }
        }
    }

    /// Ends the server and returns its log. An exit without success, or an unexpected line, is a
    /// fault.
    fn end(mut self, is_expected: &dyn Fn(&str) -> bool, faults: &Faults) -> Outcome<Vec<String>> {
        if !self.server.terminate(EXITING)? {
            faults.add("the server did not exit with success");
        }
        let lines = self.log.join().map_err(|_| "the log reader panicked")?;
        for line in lines.iter().filter(|line| !is_expected(line)) {
            faults.add(&format!("the server logs: {line}"));
        }
        Ok(lines)
    }
}

/// Something repeated beside the load.
struct Chore<'a> {
    name: &'static str,
    interval: Duration,
    act: Box<dyn FnMut() -> Outcome<()> + Send + 'a>,
}

impl<'a> Chore<'a> {
    fn new(
        name: &'static str,
        interval: Duration,
        act: impl FnMut() -> Outcome<()> + Send + 'a,
    ) -> Chore<'a> {
        let act = Box::new(act);
        Chore {
            name,
            interval,
            act,
        }
    }

    /// Acts at each interval, immediately after an act that took longer. A failure is a fault and
    /// ends the chore.
    fn repeat(mut self, is_over: &AtomicBool, faults: &Faults) {
        let mut due = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < due {
                thread::sleep(POLL.min(due - now));
                continue;
            }
            if let Err(error) = (self.act)() {
                faults.add(&format!("{}: {error}", self.name));
                return;
            }
            due = (due + self.interval).max(Instant::now());
        }
    }
}

/// Runs the load for `length`, with each chore on a thread of its own.
fn run_beside<V: Validate + Send>(
    load: &mut Load<V>,
    length: Duration,
    chores: Vec<Chore<'_>>,
    faults: &Faults,
) -> Outcome<Flow> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for chore in chores {
            scope.spawn(|| chore.repeat(&is_over, faults));
        }
        // On a thread of its own, so that the chores end when it panics.
        let flow = scope.spawn(|| load.run_for(length)).join();
        is_over.store(true, Ordering::Relaxed);
        flow.map_err(|_| "the load panicked")?
    })
}

/// Size of the platform in `refresh` and `soak`.
struct Scale {
    size: Size,
    counts: Counts,
}

const FULL_SCALE: Scale = Scale {
    size: Size {
        islands: 20_000,
        creators: 8_000,
        days: 30,
    },
    counts: Counts {
        islands: 600,
        creators: 200,
        pages: 500,
        searches: 300,
    },
};

const QUICK_SCALE: Scale = Scale {
    size: TINY,
    counts: Counts {
        islands: 40,
        creators: 20,
        pages: 60,
        searches: 20,
    },
};

/// A platform that is published again and again.
struct Platform {
    versions: Versions,
    publisher: Publisher,
    keys: Vec<String>,
}

impl Platform {
    /// Publishes the first version and issues the keys of the load. The state directory is `state`
    /// in `scratch`.
    fn new(scratch: &Path, scale: &Scale, pace: Pace) -> Outcome<Platform> {
        world::synthesize(&scratch.join("dataset"), scale.size, &[])?;
        let versions = Versions::default();
        let publisher = Publisher::new(versions.clone(), scratch, pace)?;
        let keys = (0..KEYS).map(|number| {
            let address = format!("bench{number}@example.com");
            world::issue_key(&scratch.join("state"), &address)
        });
        Ok(Platform {
            versions,
            publisher,
            keys: keys.collect::<Outcome<_>>()?,
        })
    }

    /// A closed loop that requests all targets.
    fn load<'a>(&self, address: SocketAddr, targets: &'a [Target]) -> Outcome<Load<Validator<'a>>> {
        let order = targets::order(targets.len());
        let request = |request: &targets::Request| {
            let coding = if request.gzip { GZIP } else { "" };
            head(&targets[request.target].path, coding)
        };
        let key = |key: &String| format!("authorization: Bearer {key}\r\n");
        let plan = Plan {
            connections: CONNECTIONS,
            requests: order.iter().map(request).collect(),
            headers: self.keys.iter().map(key).collect(),
            rate: None,
            visits: 0.0,
            nap: NAP,
        };
        let validator = Validator::new(self.versions.clone(), targets, order, CONNECTIONS);
        Load::new(address, plan, validator)
    }
}

const GZIP: &str = "accept-encoding: gzip\r\n";

/// A GET request without the empty line at its end.
fn head(path: &str, headers: &str) -> String {
    let mut request = String::from_utf8_lossy(&get(path, headers)).into_owned();
    request.truncate(request.len() - 2);
    request
}

/// The same load with publishes and without, in turns.
#[derive(Default)]
struct Rounds {
    without: Vec<Flow>,
    with: Vec<Flow>,
}

impl Rounds {
    /// Runs so many rounds; `run` is called with whether to publish.
    fn run(count: usize, mut run: impl FnMut(bool) -> Outcome<Flow>) -> Outcome<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..count {
            for turn in 0..2 {
                if (turn + round) % 2 == 1 {
                    rounds.with.push(run(true)?);
                } else {
                    rounds.without.push(run(false)?);
                }
            }
        }
        Ok(rounds)
    }

    /// Prints medians, and the medians of the ratios of each round.
    fn report(&self, columns: &[Column]) {
        let values = |flows: &[Flow], value: fn(&Flow) -> f64| -> Vec<f64> {
            flows.iter().map(value).collect()
        };
        let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
            let cells = columns.iter().map(|column| format!("{:>13}", cell(column)));
            println!("  {name:<18}{}", cells.collect::<Vec<_>>().concat());
        };
        let (without, with) = (&self.without, &self.with);
        let of = |flows, value| format!("{:.0}", median(values(flows, value)));
        row("", &|(name, _)| (*name).to_owned());
        row("without publishes", &|(_, value)| of(without, *value));
        row("with publishes", &|(_, value)| of(with, *value));
        row("median ratio", &|(_, value)| {
            let ratio = median_ratio(&values(with, *value), &values(without, *value));
            format!("{ratio:.2}")
        });
    }
}

/// A column of [`Rounds::report`].
type Column = (&'static str, fn(&Flow) -> f64);
