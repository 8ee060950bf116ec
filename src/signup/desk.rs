//! The desk: wishes in, replies out, one at a time.
//!
//! Every rule is in a file of its own; here is the order in which they are asked. What is cheap comes
//! first, and what writes last, so that who is refused has cost little.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use super::Say;
use super::email;
use super::error::SignupError;
use super::index::{Index, ListedKey, day_full};
use super::pace::{Pace, onward};
use super::pass::{LIFETIME_SECONDS, Pass, Purpose, Signer};
use super::refused::Refused;
use super::secret;
use super::wish::{Mode, Reply, Terms, Wish};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::keys::{
    KeyAddress, KeyChangeError, KeyFileVersion, KeyId, KeyPrefix, KeyStore, KeyStoreError, NewKey,
};
use crate::model::Tier;
use crate::request::is_base_url;

/// Mails for each key of a day: one that was lost, one that expired.
const MAILS_A_KEY: u32 = 3;
/// For another process that is changing the keys: others wait for the desk meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// Told to the operator where the key file is not what it was.
const GONE: &str = "keys that were there are gone; nobody is issued one until they are back";
/// Between two lines to the operator that say the same.
const SILENCE_SECONDS: i64 = 60;

/// Owned by one thread.
pub struct Desk {
    store: KeyStore,
    prefix: KeyPrefix,
    mode: Mode,
    base_url: String,
    terms: Terms,
    signer: Signer,
    index: Index,
    /// The key file's state when the index was made; without a file, both are empty.
    indexed: Option<KeyFileVersion>,
    requests: Pace,
    mails_of_client: Pace,
    mails_to_mailbox: Pace,
    /// Keys and mails of a network of many clients.
    network: Pace,
    /// Mails of the day. A restart forgets them, and the paces: what counts for good is in the records.
    mailed: (UtcDay, u32),
    latest: UnixSeconds,
    say: Say,
    said: Option<(UnixSeconds, String)>,
}

impl Desk {
    /// A desk for the keys of a state directory; links begin with `base_url`.
    pub fn open(
        state: &Path,
        mode: Mode,
        prefix: KeyPrefix,
        base_url: &str,
        terms: Terms,
        say: Say,
    ) -> Result<Desk, SignupError> {
        if matches!(mode, Mode::Email(_)) && !is_base_url(base_url) {
            return Err(SignupError::BaseUrl(base_url.to_owned()));
        }
        Ok(Desk {
            store: KeyStore::new(state).with_lock_timeout(PATIENCE),
            prefix,
            mode,
            base_url: base_url.trim_end_matches('/').to_owned(),
            terms,
            signer: Signer::new(secret::read_or_make(state)?),
            index: Index::default(),
            indexed: None,
            // A page and a few tries at once; a /64 may be a household or an office.
            requests: Pace::new(30, 2),
            mails_of_client: Pace::new(10, 360),
            // A mail lost, another, and then a nuisance.
            mails_to_mailbox: Pace::new(3, 1200),
            // A fifth of what a day has by default.
            network: Pace::new(60, 600),
            mailed: (UtcDay(0), 0),
            latest: UnixSeconds(0),
            say,
            said: None,
        })
    }

    /// Answers a client. Blocks on locks and the disk.
    pub fn serve(&mut self, client: IpAddr, wish: Wish, now: UnixSeconds) -> Reply {
        let client = Client::of(client);
        let now = onward(&mut self.latest, now);
        self.answer(&client, wish, now)
            .unwrap_or_else(Reply::Refused)
    }

    fn answer(&mut self, client: &Client, wish: Wish, now: UnixSeconds) -> Result<Reply, Refused> {
        let paced = self.requests.take(client.own.as_str(), now);
        paced.map_err(too_fast)?;
        self.refresh(now)?;
        match wish {
            Wish::Look { pass } => self.look(client, pass.as_deref(), now),
            Wish::Mail { email, pass } => self.mail(client, &email, &pass, now),
            Wish::Issue { pass } => self.issue(client, &pass, now),
            Wish::Revoke { pass, id } => self.revoke(client, &pass, &id, now),
        }
    }

    fn look(
        &mut self,
        client: &Client,
        pass: Option<&str>,
        now: UnixSeconds,
    ) -> Result<Reply, Refused> {
        match (&self.mode, pass) {
            // Whose page it is, the connection says.
            (Mode::Ip, _) => Ok(self.keys(&client.own, expiry(now), None, None)),
            (Mode::Email(_), None) => Ok(Reply::Ask {
                pass: self.pass(Purpose::Form, &client.own, expiry(now)),
            }),
            (Mode::Email(_), Some(text)) => {
                let pass = self.holder(client, text, now)?;
                Ok(self.keys(&pass.address, pass.until, None, None))
            }
        }
    }

    fn mail(
        &mut self,
        client: &Client,
        typed: &str,
        pass: &str,
        now: UnixSeconds,
    ) -> Result<Reply, Refused> {
        let form = self.signer.verify(Purpose::Form, pass, now)?;
        if form.address != client.own {
            return Err(Refused::Invalid);
        }
        let address = email::parse(typed).ok_or(Refused::NoEmail)?;
        // Before anything that depends on the address: whether mails wait is the same for all. And before the
        // paces: who is sent nothing has used up nothing.
        if matches!(&self.mode, Mode::Email(mailer) if !mailer.has_room()) {
            self.failed(&"too many mails wait for the mailer's command", now);
            return Err(Refused::MailsWait);
        }
        let paced = self.mails_of_client.take(client.own.as_str(), now);
        let paced = paced.and_then(|()| self.network.take(&client.network, now));
        paced.map_err(|retry_after_seconds| Refused::TooManyMails {
            retry_after_seconds,
        })?;
        if self.mailed.0 != now.day() {
            self.mailed = (now.day(), 0);
        }
        if self.mailed.1 >= self.terms.daily_max.saturating_mul(MAILS_A_KEY) {
            return Err(day_full(now));
        }
        let mailbox = email::mailbox(&address);
        if self.mails_to_mailbox.take(&mailbox, now).is_err() {
            // Nobody learns whether others had mail sent there.
            return Ok(Reply::Mailed);
        }
        let pass = self.pass(Purpose::Holder, &address, expiry(now));
        let link = format!("{}/keys?pass={pass}", self.base_url);
        let Mode::Email(mailer) = &self.mode else {
            return Err(Refused::Invalid);
        };
        if !mailer.send(&address, &self.base_url, link) {
            return Err(self.failed(&"the thread that sends mail has ended", now));
        }
        self.mailed.1 += 1;
        Ok(Reply::Mailed)
    }

    fn issue(&mut self, client: &Client, pass: &str, now: UnixSeconds) -> Result<Reply, Refused> {
        let pass = self.holder(client, pass, now)?;
        let (address, number) = (&pass.address, pass.number);
        let daily_max = self.terms.daily_max;
        // Without the lock first: who is refused has no file read and keeps nobody waiting.
        self.index.may_issue(address, number, daily_max, now)?;
        let paced = self.network.take(&client.network, now);
        paced.map_err(too_fast)?;
        let known = &self.index;
        let check = |records: &_| {
            // A file that is gone would begin anew with this one key, and end all others.
            if known.is_ahead_of(records) {
                return Err(None);
            }
            let may = Index::of(records).may_issue(address, number, daily_max, now);
            may.map_err(Some)
        };
        let asked = (address, Tier::Free);
        let issued = self.store.issue_if(&self.prefix, asked, now, check);
        let issued = issued.map_err(|error| self.not_stored(error, now))?;
        let key = issued.map_err(|refused| refused.unwrap_or_else(|| self.failed(&GONE, now)))?;
        let refreshed = self.refresh(now);
        let listed = ListedKey::new(key.id, now);
        let mut reply = self.keys(address, self.until(&pass, now), Some(key), None);
        if let (Err(_), Reply::Keys { keys, .. }) = (refreshed, &mut reply) {
            // It is durable and is shown this once, whatever became of the file since.
            keys.push(listed);
        }
        Ok(reply)
    }

    fn revoke(
        &mut self,
        client: &Client,
        pass: &str,
        id: &str,
        now: UnixSeconds,
    ) -> Result<Reply, Refused> {
        let pass = self.holder(client, pass, now)?;
        let id: KeyId = id.trim().parse().map_err(|_| Refused::UnknownKey)?;
        // Keys of other tiers are not given here, so nobody could get one back.
        let is_free = |key: &&ListedKey| key.id == id && key.tier == Tier::Free;
        let found = self.index.keys(&pass.address).find(is_free);
        if found.ok_or(Refused::UnknownKey)?.revoked.is_none() {
            let revoked = self.store.revoke(id, now);
            revoked.map_err(|error| self.not_stored(error, now))?;
            // It is done, whatever became of the file since; the operator was told.
            let _ = self.refresh(now);
        }
        Ok(self.keys(&pass.address, self.until(&pass, now), None, Some(id)))
    }

    /// The pass of somebody who has proven an address.
    fn holder(&self, client: &Client, pass: &str, now: UnixSeconds) -> Result<Pass, Refused> {
        let pass = self.signer.verify(Purpose::Holder, pass, now)?;
        match &self.mode {
            Mode::Ip if pass.address != client.own => Err(Refused::Invalid),
            // One of the other mode, from before the setting was changed.
            Mode::Email(_) if !pass.address.as_str().contains('@') => Err(Refused::Invalid),
            _ => Ok(pass),
        }
    }

    /// How long the next pass holds: a client proves its address each time, but who has found a link
    /// is not to live on it for ever.
    fn until(&self, pass: &Pass, now: UnixSeconds) -> UnixSeconds {
        match self.mode {
            Mode::Ip => expiry(now),
            Mode::Email(_) => pass.until,
        }
    }

    fn keys(
        &self,
        address: &KeyAddress,
        until: UnixSeconds,
        issued: Option<NewKey>,
        revoked: Option<KeyId>,
    ) -> Reply {
        Reply::Keys {
            address: address.clone(),
            keys: self.index.keys(address).cloned().collect(),
            pass: self.pass(Purpose::Holder, address, until),
            issued,
            revoked,
        }
    }

    fn pass(&self, purpose: Purpose, address: &KeyAddress, until: UnixSeconds) -> String {
        let pass = Pass {
            address: address.clone(),
            number: self.index.number(address),
            until,
        };
        self.signer.sign(purpose, &pass)
    }

    /// Reads the records again if they have changed.
    fn refresh(&mut self, now: UnixSeconds) -> Result<(), Refused> {
        // Before the records, so that a change in between is seen the next time.
        let state = self.store.version();
        let state = state.map_err(|error| self.failed(&error, now))?;
        if self.indexed != state {
            let records = self.store.read();
            let records = records.map_err(|error| self.failed(&error, now))?;
            if self.index.is_ahead_of(&records) {
                return Err(self.failed(&GONE, now));
            }
            self.index = Index::of(&records);
            self.indexed = state;
        }
        Ok(())
    }

    fn not_stored(&mut self, error: KeyStoreError, now: UnixSeconds) -> Refused {
        match error {
            KeyStoreError::Refused(KeyChangeError::TooManyFree(_)) => Refused::TooManyActive,
            KeyStoreError::Refused(KeyChangeError::Unknown(_)) => Refused::UnknownKey,
            KeyStoreError::Refused(KeyChangeError::Full) => Refused::Closed,
            // It is given back soon, and what was asked can be asked again.
            KeyStoreError::File(error) if error.is_busy() => {
                self.failed(&error, now);
                Refused::Busy
            }
            KeyStoreError::File(error) => self.failed(&error, now),
        }
    }

    /// Tells the operator, and no more often than is of use: anybody can make it happen again.
    fn failed(&mut self, reason: &dyn Display, now: UnixSeconds) -> Refused {
        let line = format!("sign-up failed: {reason}");
        let is_news = self.said.as_ref().is_none_or(|(at, said)| {
            *said != line || !(0..SILENCE_SECONDS).contains(&(now.0 - at.0))
        });
        if is_news {
            (self.say)(&line);
            self.said = Some((now, line));
        }
        Refused::Failed
    }
}

/// Who asks.
struct Client {
    own: KeyAddress,
    /// Of IPv6 the /48, which anybody gets for nothing: each has 65,536 clients in it, enough to use up
    /// every day for all others.
    network: String,
}

impl Client {
    fn of(address: IpAddr) -> Client {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).to_string(),
        };
        let own = address.into();
        Client { own, network }
    }
}

fn too_fast(retry_after_seconds: u32) -> Refused {
    Refused::TooFast {
        retry_after_seconds,
    }
}

fn expiry(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0 + LIFETIME_SECONDS)
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
