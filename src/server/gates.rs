//! The state directory opened, kept up, and shared by the gates of all workers.

use std::sync::Arc;
use std::time::Duration;

use super::caller::Gate;
use super::key_reload::KeyReloader;
use super::once::Once;
use super::settings::{Settings, StartError};
use crate::calendar::Clock;
use crate::keys::{KeyRecords, KeyRing};
use crate::quota::{AnonymousQuota, DayFile, KeyedQuota, TierLimits};
use crate::request::TrustedProxies;
use crate::sync::{Latest, LatestReader};

/// How often the key file and the day are looked at; a change has to show within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// What the gates of all workers share.
pub(crate) struct Gates {
    clock: Arc<Clock>,
    keys: Arc<Latest<KeyRing>>,
    anonymous: Arc<AnonymousQuota>,
    keyed: Arc<KeyedQuota>,
    limits: TierLimits,
    proxies: Arc<TrustedProxies>,
}

impl Gates {
    /// Opens the state directory, if there is one, and watches it.
    pub(crate) fn open(settings: &Settings, say: fn(&str)) -> Result<Gates, StartError> {
        let gates = |clock, keys, anonymous, keyed| Gates {
            clock,
            keys,
            anonymous: Arc::new(anonymous),
            keyed,
            limits: settings.limits,
            proxies: Arc::new(settings.trusted_proxies.clone()),
        };
        let Some(directory) = &settings.state else {
            let ring = KeyRing::new(settings.key_prefix.clone(), &KeyRecords::default());
            return Ok(gates(
                Arc::new(Clock::system(None, say)),
                Arc::new(Latest::new(ring)),
                AnonymousQuota::new(settings.quota_sizes),
                Arc::new(KeyedQuota::new(None)),
            ));
        };
        let day = DayFile::open(directory, &say).map_err(StartError::State)?;
        let clock = Arc::new(Clock::system(day.day(), say));
        let today = clock.now().day;
        let anonymous = AnonymousQuota::open(directory, settings.quota_sizes, today, &say)
            .map_err(StartError::State)?;
        let keyed = Arc::new(KeyedQuota::new(Some(directory.clone())));
        let (reloader, ring) = KeyReloader::open(
            directory,
            settings.key_prefix.clone(),
            Arc::clone(&keyed),
            Arc::clone(&clock),
            &say,
        )?;
        let keys = Arc::new(Latest::new(ring));
        let (watched, time) = (Arc::clone(&keys), Arc::clone(&clock));
        std::thread::Builder::new()
            .name("state".into())
            .spawn(move || watch(reloader, &watched, day, &time, &say))?;
        Ok(gates(clock, keys, anonymous, keyed))
    }

    /// The clock that they go by.
    pub(crate) fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    /// A gate for one worker.
    pub(crate) fn make(&self) -> Gate {
        Gate {
            keys: LatestReader::new(Arc::clone(&self.keys)),
            anonymous: Arc::clone(&self.anonymous),
            keyed: Arc::clone(&self.keyed),
            limits: self.limits,
            proxies: Arc::clone(&self.proxies),
        }
    }
}

/// Keeps the keys at what is in the directory, and the directory's day at the clock's, for ever, off
/// the workers' threads.
fn watch(
    mut reloader: KeyReloader,
    keys: &Latest<KeyRing>,
    mut day: DayFile,
    clock: &Clock,
    say: &dyn Fn(&str),
) {
    let mut complaint = Once::default();
    loop {
        if let Err(error) = day.keep(clock.now().day) {
            complaint.say(
                say,
                format!("{error}; a restart would go by the clock alone"),
            );
        }
        std::thread::sleep(INTERVAL);
        if let Some(ring) = reloader.poll(say) {
            keys.replace(ring);
        }
    }
}
