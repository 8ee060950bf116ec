//! Scenarios: the release server under load that validates every response, while something happens
//! to the server. Each prints a report and fails on any fault. See `benches/README.md`.
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

use std::fmt::Display;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use load::{Flow, Load, Plan, Validate};
use publisher::{Pace, Publisher};
use targets::Target;
use validator::Validator;

use crate::common::prelude::*;

/// Connections of a validated load, and the keys they use in turn: what two clients request is
/// cached, and what one requests is not.
const CONNECTIONS: usize = 32;
const KEYS: usize = 4;
/// Sleep of a load at a constant rate, which shares its core with other processes.
const NAP: Duration = Duration::from_micros(200);
const PRINTED_MAX: usize = 50;
/// Longest sleep of a thread that waits for a condition, or for the end.
const POLL: Duration = Duration::from_millis(20);
/// Time for the server to release what it no longer needs.
const SETTLING: Duration = Duration::from_secs(15);
const BASELINE: Duration = Duration::from_secs(5);
const EXITING: Duration = Duration::from_secs(20);
/// Clients of one source address: half of what the server allows.
const PER_ADDRESS: usize = 250;
/// Log lines of a server without faults, whatever happens to it.
const SERVING: &str = "serving the publish of ";
const STOPPING: &str = "stopping: ";

/// Runs a scenario by its name, as the arguments of the process require.
pub(crate) fn main(scenario: &str) -> Outcome<()> {
    raise_limit()?;
    println!("{}; publishes and attackers beside the load", pin_load()?);
    let scratch = Scratch::new()?;
    let (faults, begun) = (Faults::default(), Instant::now());
    match scenario {
        "attack" => attack::run(&faults),
        "refresh" => refresh::run(scratch.path(), &faults),
        "soak" => soak::run(scratch.path(), &faults),
        "swap" => swap::run(scratch.path(), &faults),
        _ => Err("no such scenario".into()),
    }?;
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    match faults.0.into_inner() {
        0 => println!("no faults"),
        count => return Err(format!("{count} faults").into()),
    }
    Ok(())
}

/// The length of a run: that of its form, unless the arguments of the bench have one.
fn length(full: Duration, quick: Duration) -> Duration {
    let given = env::args().find_map(|word| word.parse().ok());
    given.map_or(full_or_quick(full, quick), Duration::from_secs)
}

/// Faults, printed as they are found.
#[derive(Default)]
struct Faults(AtomicUsize);

impl Faults {
    fn add(&self, fault: impl Display) {
        if self.0.fetch_add(1, Ordering::Relaxed) < PRINTED_MAX {
            println!("fault: {fault}");
        }
    }

    fn add_all(&self, faults: impl IntoIterator<Item = String>) {
        faults.into_iter().for_each(|fault| self.add(fault));
    }

    fn require(&self, is_right: bool, fault: impl Display) {
        if !is_right {
            self.add(fault);
        }
    }

    /// Adds the faults of a load, and prints their number.
    fn add_load(&self, total: &Flow) {
        let (failed, mixed) = (total.failed, total.mixed);
        let all = total.valid + failed + mixed;
        println!("{all} responses validated: {failed} failed, {mixed} of two versions or outdated");
        let fault = format_args!("{failed} responses failed, {mixed} were mixed");
        self.require(failed + mixed == 0, fault);
    }
}

/// The source address of a client by its number. Each use has a network of its own.
fn source(network: u8, number: usize) -> Ipv4Addr {
    let first = Ipv4Addr::new(127, network, 0, 1);
    Ipv4Addr::from_bits(first.to_bits() + (number / PER_ADDRESS) as u32)
}

/// The server that a scenario is about.
struct Subject {
    server: Server,
    address: SocketAddr,
    admin: SocketAddr,
    log: JoinHandle<Vec<String>>,
}

impl Subject {
    /// Starts the release server with an admin listener.
    fn start(configure: impl FnOnce(&mut Command)) -> Outcome<Subject> {
        let admin = free_address()?;
        let mut server = world::serve(|serve| {
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
        let longest = descriptors.map_or(BASELINE, |_| SETTLING);
        wait_for(longest, Duration::ZERO, || {
            load.run_for(Duration::from_millis(50))?;
            thread::sleep(Duration::from_millis(500));
            let open = self.server.usage()?.descriptors;
            Ok(descriptors.filter(|most| open <= *most))
        })?;
        self.server.usage()
    }

    /// Ends the server and returns its log. An exit without success, or a line that begins in none
    /// of the expected ways after a number, is a fault.
    fn end(mut self, expected: &[&str], faults: &Faults) -> Outcome<Vec<String>> {
        let exited = self.server.terminate(EXITING)?;
        faults.require(exited, "the server did not exit with success");
        let lines = self.log.join().map_err(|_| "the log reader panicked")?;
        for line in &lines {
            let text = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let is_expected = expected.iter().any(|begin| text.starts_with(begin));
            faults.require(is_expected, format_args!("the server logs: {line}"));
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
                faults.add(format_args!("{}: {error}", self.name));
                return;
            }
            due = (due + self.interval).max(Instant::now());
        }
    }
}

/// Runs the load for `length`, with each chore on a thread of its own.
fn run_beside<V: Validate>(
    load: &mut Load<V>,
    length: Duration,
    chores: Vec<Chore<'_>>,
    faults: &Faults,
) -> Outcome<Flow> {
    let repeat = |is_over: &AtomicBool| {
        thread::scope(|scope| {
            for chore in chores {
                scope.spawn(|| chore.repeat(is_over, faults));
            }
        });
    };
    Ok(beside(repeat, || load.run_for(length))?.1)
}

/// A platform that is published again and again.
struct Platform {
    size: &'static str,
    publisher: Publisher,
    keys: Vec<String>,
}

impl Platform {
    /// Publishes the first version and issues the keys of the load. The state directory is `state`
    /// in `scratch`.
    fn new(scratch: &Path, pace: Pace) -> Outcome<Platform> {
        let size = full_or_quick("--islands 20000 --creators 8000 --days 30", TINY);
        synthesize(&scratch.join("dataset"), size)?;
        let publisher = Publisher::new(scratch, pace)?;
        let keys = (0..KEYS).map(|number| {
            let address = format!("bench{number}@example.com");
            world::issue_key(&scratch.join("state"), &address)
        });
        Ok(Platform {
            size,
            publisher,
            keys: keys.collect::<Outcome<_>>()?,
        })
    }

    /// A closed loop that requests all targets.
    fn load<'a>(&self, address: SocketAddr, targets: &'a [Target]) -> Outcome<Load<Validator<'a>>> {
        let order = targets::order(targets.len());
        let request = |request: &targets::Request| {
            let coding = if request.gzip { GZIP } else { "" };
            (targets[request.target].path.clone(), coding)
        };
        let key = |key: &String| format!("authorization: Bearer {key}\r\n");
        let plan = Plan {
            connections: CONNECTIONS,
            requests: order.iter().map(request).collect(),
            headers: self.keys.iter().map(key).collect(),
            rate: None,
            nap: NAP,
        };
        let validator =
            Validator::new(self.publisher.versions.clone(), targets, order, CONNECTIONS);
        Load::new(address, plan, validator)
    }
}

/// Prints medians of the same load without publishes and with, measured in turns, and the medians of
/// the ratios of each round.
fn report_rounds([without, with]: &[Vec<Flow>; 2], columns: &[Column]) {
    let values =
        |flows: &[Flow], value: fn(&Flow) -> f64| -> Vec<f64> { flows.iter().map(value).collect() };
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let cells = columns.iter().map(|column| format!("{:>13}", cell(column)));
        println!("  {name:<18}{}", cells.collect::<Vec<_>>().concat());
    };
    let of = |flows, value| format!("{:.0}", median(values(flows, value)));
    row("", &|(name, _)| (*name).to_owned());
    row("without publishes", &|(_, value)| of(without, *value));
    row("with publishes", &|(_, value)| of(with, *value));
    row("median ratio", &|(_, value)| {
        let ratio = median_ratio(&values(with, *value), &values(without, *value));
        format!("{ratio:.2}")
    });
}

/// A column of [`report_rounds`].
type Column = (&'static str, fn(&Flow) -> f64);
