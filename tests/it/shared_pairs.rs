//! Losses of servers, of the network and of the store's data, two and three in a row, and the clients
//! that send requests between them (CONTRACT section 9).
//!
//! A history is a list of steps. After each step:
//!
//! - All servers together have admitted no more than the limit of each client, and beyond it the shares
//!   that CONTRACT section 9 allows; with `refuse` none.
//! - `X-RateLimit-Remaining` has not risen at a server, nor over a restart while the store was in use.
//! - Each response is 200, 429 or 503, the latter two with `Retry-After`, and the servers are ready.
//!
//! At the end of a history all servers and the store run, and each client sends requests until all
//! servers refuse them: it gets the rest of its day, but for the leases of servers that were killed. The
//! state directories survive all steps.
//!
//! A failure prints the history. `IM_TEST_HISTORY=TEXT` selects those that are printed with `TEXT`, such as
//! `seed 7;`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;

use Step::{
    Cut, Flush, Follow, Forget, Hurry, Join, Kill, Restore, Save, Settle, Start, Stop, StoreDown,
    StoreUp, Visit,
};

use crate::prelude::*;
use crate::shared_world::{Step, World};
use crate::store::LIMIT;

/// Histories that run at a time.
const TOGETHER: usize = 5;

/// A history: its servers, what they do without the store, and the steps.
struct History {
    name: String,
    servers: usize,
    has_spare: bool,
    refuses: bool,
    steps: Vec<Step>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outage = if self.refuses { "refuse" } else { "share" };
        let Self { name, servers, .. } = self;
        write!(f, "{name}; {servers} servers, {outage}: {:?}", self.steps)
    }
}

/// The listed histories, after a first visit of all clients.
const LISTED: &str = "
data lost: Flush Visit(4)
data lost, noticed: Flush Settle Visit(4)
an empty store: StoreDown StoreUp Visit(4)
an outage, an empty store: StoreDown Visit(4) StoreUp Visit(4)
an empty primary: Follow Visit(4)
a kill, an empty primary: Kill(0) Start(0) Follow Settle Visit(4)
the marker lost: Forget Visit(4) Settle Visit(4)
an old copy: Save Visit(4) Restore Visit(4)
an old copy, noticed: Save Visit(4) Restore Settle Visit(4)
a restart, an empty store: Stop(0) Start(0) StoreDown StoreUp Visit(4)
a kill, an empty store: Kill(0) Start(0) StoreDown StoreUp Settle Visit(4)
a restart, data lost: Stop(0) Start(0) Flush Visit(4)
a kill, data lost: Kill(0) Start(0) Flush Settle Visit(4)
a restart, an old copy: Save Visit(4) Stop(0) Start(0) Restore Visit(4)
rolling restarts: Stop(0) Start(0) Visit(4) Stop(1) Start(1) Visit(4) Stop(2) Start(2) Visit(4)
rolling kills: Kill(0) Start(0) Visit(4) Kill(1) Start(1) Visit(4) Kill(2) Start(2) Visit(4)
servers down together: Visit(4) Stop(1) Kill(2) Visit(4) Stop(0) Start(1) Visit(4) Start(2) Visit(4) Start(0) Visit(4)
an empty store, a restart: StoreDown StoreUp Stop(0) Start(0) Visit(4)
data lost, a kill at once: Flush Kill(0) Visit(4) Hurry(0) Visit(4)
rolling restarts, an empty store: Stop(0) Start(0) Visit(4) Stop(1) Start(1) Visit(4) Stop(2) Start(2) StoreDown StoreUp Visit(4)
rolling kills, data lost: Kill(0) Start(0) Visit(4) Kill(1) Start(1) Visit(4) Kill(2) Start(2) Flush Visit(4)
power lost everywhere: Kill(0) Kill(1) Kill(2) StoreDown StoreUp Hurry(0) Visit(4) Hurry(1) Visit(4) Start(2) Visit(4)
a restart without the store, which comes empty: StoreDown Stop(0) Start(0) Visit(4) StoreUp Visit(4)
a server down, data lost: Stop(0) Flush Visit(60) Start(0) Visit(4)
a server killed, an empty store: Kill(0) StoreDown StoreUp Settle Visit(60) Start(0) Visit(4)
a server down, an old copy: Save Visit(4) Kill(0) Restore Settle Visit(60) Start(0) Visit(4)
a server cut off, data lost: Cut(0) Flush Settle Visit(60) Join(0) Visit(4)
a server cut off and restarted, data lost: Cut(0) Visit(4) Stop(0) Start(0) Flush Settle Visit(4) Join(0) Visit(4)
two servers down, data lost: Stop(0) Kill(1) Flush Settle Visit(60) Start(1) Visit(4) Start(0) Visit(4)
data lost between two restarts: Stop(0) Start(0) Flush Settle Visit(4) Kill(1) Start(1) Flush Visit(4)
data lost with each restart: Stop(0) Flush Start(0) Stop(1) Flush Start(1) Stop(2) Flush Start(2)
the marker and a server lost: Kill(0) Forget Settle Visit(4) Start(0) Visit(4)
";

/// The same of two servers and a new one, the third, which takes the place of one that is down.
const LISTED_WITH_SPARE: &str = "
a new server: Stop(0) Start(2) Visit(4) Stop(1) Start(0) Visit(4)
a new server, which comes first to an empty store: Stop(0) Stop(1) StoreDown StoreUp Start(2) Visit(60) Start(0) Start(1) Settle Visit(4)
a new server, which comes first after a loss: Kill(0) Kill(1) Flush Hurry(2) Visit(4) Settle Start(1) Start(0) Visit(4)
";

/// The step that `word` is the text of.
fn step(word: &str) -> Step {
    let of_each: [fn(usize) -> Step; 6] = [Stop, Kill, Start, Hurry, Cut, Join];
    let of_store = [StoreDown, StoreUp, Flush, Follow, Forget, Save, Restore];
    let others = [Settle, Visit(4), Visit(LIMIT)];
    let steps = of_each.iter().flat_map(|step| [step(0), step(1), step(2)]);
    let mut steps = steps.chain(of_store).chain(others);
    steps.find(|step| format!("{step:?}") == word).unwrap()
}

/// Listed histories.
fn listed(lines: &str, servers: usize, refuses: bool) -> Vec<History> {
    let has_spare = lines == LISTED_WITH_SPARE;
    let history = |line: &str| {
        let (name, steps) = line.rsplit_once(": ").unwrap();
        let steps = steps.split(' ').map(step);
        History {
            name: name.to_owned(),
            servers,
            has_spare,
            refuses,
            steps: std::iter::once(Visit(6)).chain(steps).collect(),
        }
    };
    // A step may name a server that is not there.
    let fits = |line: &&str| has_spare || servers == 3 || !line.contains("(2)");
    lines.trim().lines().filter(fits).map(history).collect()
}

/// A random history. The same seed gives the same one.
fn random(seed: u64) -> History {
    let mut rng = Rng(seed);
    let servers = 2 + usize::try_from(rng.below(2)).unwrap();
    let (mut are_up, mut are_cut) = (vec![true; servers], vec![false; servers]);
    let (mut is_store_up, mut has_copy) = (true, false);
    let mut steps = vec![Visit(1 + u32::try_from(rng.below(12)).unwrap())];
    while steps.len() < 12 {
        let at = usize::try_from(rng.below(servers as u64)).unwrap();
        let step = match rng.below(16) {
            0..=2 => Visit(*rng.pick(&[&1, &4, &LIMIT])),
            3 | 4 if are_up[at] => Kill(at),
            5 if are_up[at] => Stop(at),
            3..=6 if !are_up[at] && rng.one_in(2) => Hurry(at),
            3..=6 if !are_up[at] => Start(at),
            7 if are_cut[at] => Join(at),
            7 => Cut(at),
            8 | 9 if is_store_up => StoreDown,
            8..=14 if !is_store_up => StoreUp,
            10 => Flush,
            11 => Follow,
            12 => Forget,
            13 => Save,
            14 if has_copy => Restore,
            15 => Settle,
            _ => continue,
        };
        match step {
            Kill(at) | Stop(at) => are_up[at] = false,
            Start(at) | Hurry(at) => are_up[at] = true,
            Cut(at) => are_cut[at] = true,
            Join(at) => are_cut[at] = false,
            StoreDown => is_store_up = false,
            StoreUp => is_store_up = true,
            Save => has_copy = true,
            _ => {}
        }
        steps.push(step);
    }
    History {
        name: format!("random, seed {seed}"),
        servers,
        has_spare: false,
        refuses: rng.one_in(2),
        steps,
    }
}

/// Runs histories, some at a time.
fn run(histories: impl Iterator<Item = History>) {
    let selected = std::env::var_os("IM_TEST_HISTORY").unwrap_or_default();
    let selected = selected.to_str().unwrap();
    let histories: Vec<History> = histories
        .filter(|history| history.to_string().contains(selected))
        .collect();
    let run = |history: &History| {
        let History {
            servers,
            has_spare,
            refuses,
            ..
        } = history;
        let name = history.to_string();
        let Some(mut world) = World::start(name, *servers, *has_spare, *refuses, false) else {
            return;
        };
        history.steps.iter().for_each(|step| world.step(*step));
        world.finish();
    };
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some(history) = histories.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if catch_unwind(AssertUnwindSafe(|| run(history))).is_err() {
                        failed.lock().unwrap().push(history.to_string());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {}: {failed:#?}",
        failed.len(),
        histories.len()
    );
}

/// The long form has two servers as well.
fn run_listed(refuses: bool) {
    let of_two = if is_slow() { LISTED } else { "" };
    let lists = [(LISTED, 3), (LISTED_WITH_SPARE, 2), (of_two, 2)];
    run(lists
        .into_iter()
        .flat_map(|(lines, servers)| listed(lines, servers, refuses)));
}

#[test]
fn random_losses_in_a_row_keep_to_the_same_bounds() {
    let seeds = if is_slow() { 0..120 } else { 0..6 };
    run(seeds.map(random));
}

#[test]
fn without_shares_no_losses_in_a_row_admit_more_than_the_limit() {
    run_listed(true);
}

#[test]
fn with_shares_losses_in_a_row_add_at_most_the_shares_of_servers_that_were_cut_off() {
    run_listed(false);
}
