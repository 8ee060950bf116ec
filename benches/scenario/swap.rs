//! One publish replaced by another under load, at the full size: no response fails, none is of two
//! versions, and latency is compared with and without.
//!
//! Both versions are published beforehand and put in place in turn the way `publish` does it, since
//! publishing itself would compete for the cores.

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::Manifest;

use super::directory::names;
use super::load::{Fault, Load, Plan, Validate};
use super::publisher::wait_served;
use super::{CONNECTIONS, Column, Faults, report_rounds};
use crate::common::prelude::*;
use crate::common::process::run as run_command;

/// `generatedAt` of the two versions.
const STAMPS: [&str; 2] = ["2026-11-21T12:05:00Z", "2026-11-21T12:15:00Z"];
/// Fixed bodies, list pages of several orders, a search.
const TARGETS: &str = "
/v1 /v1/islands /v1/islands?sort=plays&offset=100 /v1/islands?sort=favorites&order=asc
/v1/islands?createdIn=uefn&limit=20 /v1/islands?q=red&limit=10 /v1/creators?limit=10
/v1/rankings/latest /v1/live/intraday
";

pub(super) fn run(scratch: &Path, faults: &Faults) -> Outcome<()> {
    let size = full_or_quick(
        "--islands 300000 --creators 60000 --days 2",
        "--islands 400 --creators 150 --days 2",
    );
    let (round_count, rate) = full_or_quick((7, 10_000.0), (1, 1_000.0));
    let run = full_or_quick(Duration::from_secs(4), Duration::from_millis(900));
    // Longer than the server takes to load a publish.
    let interval = full_or_quick(Duration::from_secs(3), Duration::from_millis(400));
    let mut publisher = Swapper::new(scratch, size)?;
    let server = world::serve(|serve| {
        serve.arg("--published").arg(&publisher.served);
    })?;
    let address = server.address;
    let mut targets: Vec<String> = TARGETS.split_whitespace().map(str::to_owned).collect();
    let listed = text(address, "/v1/islands?limit=20")?;
    let codes = values(&listed, "code").into_iter();
    targets.extend(codes.map(|code| format!("/v1/islands/{code}")));
    let versions = publisher.known(address, &targets)?;
    let plan = Plan {
        connections: CONNECTIONS,
        requests: targets.iter().map(|target| (target.clone(), "")).collect(),
        headers: vec![String::new()],
        rate: Some(rate),
        nap: Duration::ZERO,
    };
    let mut load = Load::new(address, plan, versions)?;
    // Warms up the server.
    load.run_for(run)?;
    let (mut swap_count, mut seen) = (0, 0);
    let rounds = in_turns(round_count, |side| {
        load.validator.connections = vec![(None, 0); CONNECTIONS];
        let before = publisher.published;
        let flow = if side == 1 {
            load.beside(|| publisher.repeat(interval, run))?.1
        } else {
            load.run_for(run)?
        };
        wait_served(address, STAMPS[(publisher.published + 1) % 2])?;
        // A connection changes its version once for each publish: more would be going back.
        let (swaps, changes) = (publisher.published - before, load.validator.changes());
        let fault = format_args!("{changes} changes of version by {swaps} publishes");
        faults.require(changes <= swaps, fault);
        swap_count += swaps;
        seen += changes;
        Ok(flow)
    })?;
    println!(
        "{size}; {rate:.0} requests/s on {CONNECTIONS} connections, open loop; {round_count} rounds of \
         {run:.1?} each way"
    );
    println!("{swap_count} publishes, {seen} seen; all responses compared byte for byte:");
    faults.add_load(&load.total);
    let columns: [Column; 3] = [
        ("p50 us", |flow| flow.latencies.quantile_micros(0.5)),
        ("p99 us", |flow| flow.latencies.quantile_micros(0.99)),
        ("p99.9 us", |flow| flow.latencies.quantile_micros(0.999)),
    ];
    report_rounds(&rounds, &columns);
    println!("goal: p99 with publishes at most 1.5 times that without");
    Ok(())
}

/// Two published directories, and the directory served, which has the payload files of both and the
/// manifest of one, as a directory has after a publish.
struct Swapper {
    prepared: [PathBuf; 2],
    served: PathBuf,
    published: usize,
}

impl Swapper {
    /// Publishes both versions. They have the same islands, but the last two days are exchanged, so
    /// that all rows differ.
    fn new(scratch: &Path, size: &str) -> Outcome<Swapper> {
        let dataset = scratch.join("dataset");
        let prepared = ["first", "second"].map(|name| scratch.join(name));
        synthesize(&dataset, size)?;
        run_command(publish_command(&dataset, &prepared[0], STAMPS[0]))?;
        let daily = dataset.join("daily");
        let days = names(&daily)?;
        let [.., before, last] = &days[..] else {
            return Err("fewer than two days".into());
        };
        let [before, last, aside] = [before, last, "aside"].map(|name| daily.join(name));
        fs::rename(&last, &aside)?;
        fs::rename(&before, &last)?;
        fs::rename(&aside, &before)?;
        run_command(publish_command(&dataset, &prepared[1], STAMPS[1]))?;
        fs::remove_dir_all(&dataset)?;
        let served = scratch.join("served");
        fs::create_dir(&served)?;
        for version in &prepared {
            let manifest = Manifest::read(&Directory::open(version)?)?.ok_or("no manifest")?;
            for payload in manifest.files() {
                fs::hard_link(version.join(&payload.file), served.join(&payload.file))?;
            }
        }
        let mut swapper = Swapper {
            prepared,
            served,
            published: 0,
        };
        swapper.swap()?;
        Ok(swapper)
    }

    /// Puts the other version in place: renames its manifest over the old one.
    fn swap(&mut self) -> Outcome<()> {
        let from = &self.prepared[self.published % 2];
        let unfinished = self.served.join("manifest.unfinished");
        fs::copy(from.join(Manifest::FILE), &unfinished)?;
        fs::rename(&unfinished, self.served.join(Manifest::FILE))?;
        self.published += 1;
        Ok(())
    }

    /// Swaps at intervals for the length of a run; the last time early enough to be loaded in it.
    fn repeat(&mut self, interval: Duration, run: Duration) -> Outcome<()> {
        let begun = Instant::now();
        while begun.elapsed() + interval < run {
            thread::sleep(interval / 2);
            self.swap()?;
            thread::sleep(interval / 2);
        }
        thread::sleep(run.saturating_sub(begun.elapsed()));
        Ok(())
    }

    /// The responses to all targets in each version, without load.
    fn known(&mut self, address: SocketAddr, targets: &[String]) -> Outcome<Versions> {
        let mut versions = Vec::new();
        for stamp in STAMPS {
            wait_served(address, stamp)?;
            let known = targets
                .iter()
                .map(|target| Known::new(&found(address, target)?));
            versions.push(known.collect::<Outcome<Vec<Known>>>()?);
            if versions.len() == 1 {
                self.swap()?;
            }
        }
        let same = |(a, b): (&Known, &Known)| a.body == b.body || a.tag == b.tag;
        if versions[0].iter().zip(&versions[1]).any(same) {
            return Err("two versions have a response in common".into());
        }
        Ok(Versions {
            versions,
            connections: vec![(None, 0); CONNECTIONS],
        })
    }
}

/// The response to a target in one version.
struct Known {
    /// The header line of its entity tag.
    tag: Vec<u8>,
    body: Vec<u8>,
}

impl Known {
    fn new(response: &Response) -> Outcome<Known> {
        let tag = response.header("etag").ok_or("no entity tag")?;
        Ok(Known {
            tag: format!("\r\netag: {tag}\r\n").into_bytes(),
            body: response.body().to_vec(),
        })
    }

    fn is_of(&self, response: &[u8]) -> bool {
        response.strip_suffix(&self.body[..]).is_some_and(|head| {
            head.ends_with(b"\r\n\r\n") && memchr::memmem::find(head, &self.tag).is_some()
        })
    }
}

/// Requires each response to be that of one version, byte for byte, with the tag of that version.
struct Versions {
    versions: Vec<Vec<Known>>,
    /// For each connection, its last version, and how often it has changed.
    connections: Vec<(Option<usize>, usize)>,
}

impl Versions {
    /// Changes on the connection that has most.
    fn changes(&self) -> usize {
        let changes = self.connections.iter().map(|(_, changes)| *changes);
        changes.max().unwrap_or(0)
    }
}

impl Validate for Versions {
    fn validate(&mut self, connection: usize, number: usize, response: &[u8]) -> Result<(), Fault> {
        let mut versions = self.versions.iter();
        let Some(version) = versions.position(|known| known[number].is_of(response)) else {
            return Err(Fault::mixed("it is of neither version"));
        };
        let (last, changes) = &mut self.connections[connection];
        *changes += usize::from(last.is_some_and(|last| last != version));
        *last = Some(version);
        Ok(())
    }
}
