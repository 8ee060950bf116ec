//! The state directory opened, kept up, and shared by the gates of all workers.

use std::path::Path;
use std::sync::Arc;

use crate::calendar::{Clock, UtcDay};
use crate::keys::{KeyRecords, KeyTable};
use crate::quota::{AnonymousQuota, DayFile, KeyedQuota, TierLimits};
use crate::request::TrustedProxies;
use crate::server::http::identity::Gate;
use crate::server::ops::dedup_log::{Once, Reloads};
use crate::server::ops::key_reload::KeyReloader;
use crate::server::ops::log::Log;
use crate::server::ops::poller::{Prompt, lookout};
use crate::server::settings::{Settings, StartError};
use crate::sync::{ArcSwap, ArcSwapCache, AtomicU64, Ordering};

/// Looks between two counts of the clients, for each of which the whole table is read: a quarter of a
/// minute.
const LOOKS_A_COUNT: u32 = 60;
/// Looks after a leap at which words of other days are emptied: stragglers may have written some.
const LOOKS_AFTER_A_LEAP: u32 = 8;

/// What the gates of all workers share.
pub(crate) struct Gates {
    clock: Arc<Clock>,
    keys: Arc<ArcSwap<KeyTable>>,
    anonymous: Arc<AnonymousQuota>,
    keyed: Arc<KeyedQuota>,
    limits: TierLimits,
    proxies: Arc<TrustedProxies>,
    census: Arc<Census>,
}

/// What was counted of a state directory, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Anonymous clients of today with a counter of their own, and shared counters in use.
    pub(crate) clients: AtomicU64,
    pub(crate) overflow: AtomicU64,
    /// Key files taken in, and refused.
    pub(crate) reloads: Reloads,
}

impl Gates {
    /// Opens the state directory, if there is one, and watches it and the clock.
    /// What is given beside them has all of it looked at.
    pub(crate) fn open(settings: &Settings, log: &Log) -> Result<(Gates, Prompt), StartError> {
        let say = |line: &str| log.say(line);
        let (gates, kept) = match &settings.state {
            None => (Gates::in_memory(settings), None),
            Some(directory) => {
                let (gates, kept) = Gates::in_directory(settings, directory, &say)?;
                (gates, Some(kept))
            }
        };
        let upkeep = Upkeep {
            day: gates.clock.now().day,
            leaps: 0,
            looks: 0,
            census: Arc::clone(&gates.census),
            clock: Arc::clone(&gates.clock),
            keys: Arc::clone(&gates.keys),
            anonymous: Arc::clone(&gates.anonymous),
            kept,
            complaint: Once::default(),
        };
        let log = log.clone();
        let (mut lookout, prompt) = lookout("keys");
        let run = move || {
            let mut upkeep = upkeep;
            loop {
                upkeep.look(&|line: &str| log.say(line));
                lookout.pause();
            }
        };
        std::thread::Builder::new()
            .name("state".into())
            .spawn(run)?;
        Ok((gates, prompt))
    }

    fn new(
        settings: &Settings,
        clock: Arc<Clock>,
        ring: KeyTable,
        anonymous: AnonymousQuota,
        keyed: Arc<KeyedQuota>,
    ) -> Gates {
        Gates {
            clock,
            keys: Arc::new(ArcSwap::new(ring)),
            anonymous: Arc::new(anonymous),
            keyed,
            limits: settings.limits,
            proxies: Arc::new(settings.trusted_proxies.clone()),
            census: Arc::default(),
        }
    }

    fn in_memory(settings: &Settings) -> Gates {
        let ring = KeyTable::new(settings.key_prefix.clone(), &KeyRecords::default());
        let anonymous = AnonymousQuota::new(settings.quota_sizes);
        let (clock, keyed) = (Clock::system(None), KeyedQuota::new(None));
        Gates::new(settings, Arc::new(clock), ring, anonymous, Arc::new(keyed))
    }

    fn in_directory(
        settings: &Settings,
        directory: &Path,
        say: &dyn Fn(&str),
    ) -> Result<(Gates, Kept), StartError> {
        let day = DayFile::open(directory, say).map_err(StartError::State)?;
        let clock = Clock::system(day.day());
        let today = clock.now().day;
        if let Some(newest) = day.day().filter(|newest| today.0 > newest.0 + 1) {
            say(&format!(
                "the counters are of {newest}, the clock says {today}"
            ));
        }
        let anonymous = AnonymousQuota::open(directory, settings.quota_sizes, today, say)
            .map_err(StartError::State)?;
        let keyed = Arc::new(KeyedQuota::new(settings.state.clone()));
        let clock = Arc::new(clock);
        let prefix = settings.key_prefix.clone();
        let (reloader, ring) = KeyReloader::open(
            directory,
            prefix,
            Arc::clone(&keyed),
            Arc::clone(&clock),
            say,
        )?;
        let gates = Gates::new(settings, clock, ring, anonymous, keyed);
        Ok((gates, Kept { reloader, day }))
    }

    /// The clock that they go by.
    pub(crate) fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    /// What is known of the counters and keys.
    pub(crate) fn census(&self) -> Arc<Census> {
        Arc::clone(&self.census)
    }

    /// The keys that are valid now.
    pub(crate) fn keys(&self) -> Arc<ArcSwap<KeyTable>> {
        Arc::clone(&self.keys)
    }

    /// How many anonymous clients a day there is room for.
    pub(crate) fn clients_max(&self) -> u64 {
        self.anonymous.clients_max()
    }

    /// A gate for one worker.
    pub(crate) fn make(&self) -> Gate {
        Gate {
            keys: ArcSwapCache::new(Arc::clone(&self.keys)),
            anonymous: Arc::clone(&self.anonymous),
            keyed: Arc::clone(&self.keyed),
            limits: self.limits,
            proxies: Arc::clone(&self.proxies),
        }
    }
}

/// What there is to look after in a state directory.
struct Kept {
    reloader: KeyReloader,
    day: DayFile,
}

/// Keeps everything at what the clock and the state directory say, off the workers' threads.
struct Upkeep {
    clock: Arc<Clock>,
    keys: Arc<ArcSwap<KeyTable>>,
    anonymous: Arc<AnonymousQuota>,
    kept: Option<Kept>,
    /// The day that was looked at last.
    day: UtcDay,
    /// Looks left at which words of other days are emptied.
    leaps: u32,
    looks: u32,
    census: Arc<Census>,
    complaint: Once,
}

impl Upkeep {
    fn look(&mut self, say: &dyn Fn(&str)) {
        if let Some(news) = self.clock.check() {
            say(&news);
        }
        let today = self.clock.now().day;
        // Not at once: a request that read the clock before a leap would find its words emptied, and
        // begin its old day anew. By the next look it has long been counted.
        if self.leaps > 0 {
            self.leaps -= 1;
            self.anonymous.clear_other_days(today);
        }
        if today.0 > self.day.0 + 1 {
            self.leaps = LOOKS_AFTER_A_LEAP;
        }
        self.day = today;
        if self.looks.is_multiple_of(LOOKS_A_COUNT) {
            let (clients, overflow) = self.anonymous.in_use(today);
            self.census.clients.store(clients, Ordering::Relaxed);
            self.census.overflow.store(overflow, Ordering::Relaxed);
        }
        self.looks = self.looks.wrapping_add(1);
        let Some(kept) = &mut self.kept else { return };
        if let Some(ring) = kept.reloader.poll(&self.census.reloads, say) {
            self.keys.swap(ring);
        }
        if let Err(error) = kept.day.record(today) {
            let text = format!("{error}; a restart would go by the clock alone");
            self.complaint.say(say, text);
        }
    }
}
