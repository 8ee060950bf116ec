//! The sign-up service: issues, lists and revokes keys.
//!
//! Checks are ordered by cost, and writes come last, so that a rejected request costs little.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use super::email;
use super::error::SignupError;
use super::mailer::{self, Mailer};
use super::policy::{
    GcraLimiter, SignupPolicy, check_issue, daily_limit, keys_of, network_of, number_of,
};
use super::tokens::{SignedToken, TokenPurpose, expiry, read_or_create_secret};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::keys::{
    KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyRecords, KeySharing, KeyStore, KeyStoreError,
    NewKey, SignupSecret,
};
use crate::model::Tier;
use crate::observe::{LocalCounter, Log, RateLimitedLog};
use crate::sync::lock;

/// Mails per key of the daily maximum: one may be lost, one may expire.
const MAILS_PER_KEY: u32 = 3;

/// A request of sign-up. Has no `Debug`: tokens must not be logged.
pub(crate) enum SignupRequest {
    /// Show the page, perhaps opened by a mailed link.
    Show { token: Option<String> },
    MailLink {
        /// The address as typed.
        email: String,
        /// The token of [`SignupResponse::EmailForm`].
        token: String,
    },
    Issue {
        /// The token of [`SignupResponse::Keys`].
        token: String,
    },
    Revoke {
        /// The token of [`SignupResponse::Keys`].
        token: String,
        id: String,
    },
}

/// A response of sign-up. Has no `Debug`: it contains tokens.
pub(crate) enum SignupResponse {
    EmailForm {
        /// The token for [`SignupRequest::MailLink`].
        token: String,
    },
    /// A link is sent if the address accepts mail. The same for all addresses.
    LinkMailed,
    /// The keys of the address that the client has proven.
    Keys {
        address: KeyAddress,
        /// All keys of the address, in the order of the records.
        keys: Vec<KeyRecord>,
        /// The token for the next request. With proof by e-mail, it expires with the mailed link.
        token: String,
        /// The key that was just issued. It can be shown only now.
        issued: Option<NewKey>,
        /// The id of the key that was just revoked, or was revoked before.
        revoked: Option<KeyId>,
    },
}

pub(crate) type SignupResult = Result<SignupResponse, SignupError>;

/// The service. It waits for locks and the disk, so it must not be called on a worker's thread. Rate limits and the number of mails start again with the process;
/// limits of keys are enforced from the key records.
pub(crate) struct SignupService {
    store: KeyStore,
    /// `None` if the keys are this server's own.
    sharing: Option<KeySharing>,
    prefix: KeyPrefix,
    base_url: String,
    daily_max: u32,
    /// `None` if the address is the client's IP address.
    mailer: Option<Mailer>,
    secret: SignupSecret,
    /// All records, as of the latest request.
    records: Arc<KeyRecords>,
    mails_by_client: GcraLimiter,
    mails_to_mailbox: GcraLimiter,
    /// Keys and mails by network.
    network: GcraLimiter,
    mails_today: (UtcDay, u32),
    /// Any client can repeat an internal error, and a full queue, whose lines hide no other error.
    log: RateLimitedLog,
    queue_log: RateLimitedLog,
}

impl SignupService {
    /// Opens the service for the keys of a store, and starts the thread that sends mail. Links begin with `base_url`,
    /// which [`is_base_url`](crate::request::is_base_url) accepts.
    pub(crate) fn open(
        (store, sharing): (KeyStore, Option<KeySharing>),
        policy: &SignupPolicy,
        prefix: KeyPrefix,
        base_url: &str,
        log: Log,
    ) -> io::Result<SignupService> {
        let secret = match &sharing {
            None => read_or_create_secret(store.directory())?,
            // Replaced by that of all servers before the first use.
            Some(_) => SignupSecret::random(),
        };
        let start = |command: &String| {
            let started = Mailer::start(command, log.clone(), mailer::TIMEOUT);
            let problem = "cannot start the thread that sends mail";
            started.map_err(|error| io::Error::other(format!("{problem}: {error}")))
        };
        Ok(SignupService {
            store,
            sharing,
            prefix,
            base_url: base_url.trim_end_matches('/').to_owned(),
            daily_max: policy.daily_max,
            mailer: policy.mailer.as_ref().map(start).transpose()?,
            secret,
            records: Arc::default(),
            // A few tries at once; a /64 may be a household or an office.
            mails_by_client: GcraLimiter::new(10, 360),
            // Two repetitions of a lost mail; more would be a nuisance.
            mails_to_mailbox: GcraLimiter::new(3, 1200),
            // A fifth of the default daily maximum.
            network: GcraLimiter::new(60, 600),
            mails_today: (UtcDay(0), 0),
            queue_log: RateLimitedLog::new(log.clone()),
            log: RateLimitedLog::new(log),
        })
    }

    /// Returns the number of mails that the mail command did not accept.
    pub(crate) fn failed_mails(&self) -> Arc<LocalCounter> {
        let mailer = self.mailer.as_ref();
        mailer.map_or_else(Arc::default, |mailer| Arc::clone(&mailer.failed))
    }

    /// Handles a request, of which the caller limits the rate.
    pub(crate) fn handle(
        &mut self,
        client: IpAddr,
        request: SignupRequest,
        now: UnixSeconds,
    ) -> SignupResult {
        if let Some(sharing) = &self.sharing {
            let secret = lock(&sharing.state).secret;
            self.secret = secret.ok_or(SignupError::Unavailable)?;
        }
        self.refresh()?;
        match request {
            SignupRequest::Show { token } => self.show(client, token.as_deref(), now),
            SignupRequest::MailLink { email, token } => self.mail_link(client, &email, &token, now),
            SignupRequest::Issue { token } => self.issue(client, &token, now),
            SignupRequest::Revoke { token, id } => self.revoke(client, &token, &id, now),
        }
    }

    fn show(&self, client: IpAddr, token: Option<&str>, now: UnixSeconds) -> SignupResult {
        let expires = expiry(now);
        match (&self.mailer, token) {
            // The connection proves the address.
            (None, _) => Ok(self.keys(&client.into(), expires, None, None)),
            (Some(_), None) => Ok(SignupResponse::EmailForm {
                token: self.sign(TokenPurpose::Form, &client.into(), expires),
            }),
            (Some(_), Some(token)) => {
                let token = self.verify_holder(client, token, now)?;
                Ok(self.keys(&token.address, token.expires, None, None))
            }
        }
    }

    fn mail_link(
        &mut self,
        client: IpAddr,
        typed: &str,
        token: &str,
        now: UnixSeconds,
    ) -> SignupResult {
        let form = SignedToken::verify(token, TokenPurpose::Form, &self.secret, now)?;
        let mailer = self.mailer.as_ref();
        let mailer = mailer.filter(|_| form.address == client.into());
        let mailer = mailer.ok_or(SignupError::InvalidToken)?;
        let address = email::parse(typed).ok_or(SignupError::InvalidEmail)?;
        // Before all checks that depend on the address: the response is the same for every address. And
        // before the rate limits: a request without a mail does not count.
        if mailer.is_full() {
            let line = "sign-up failed: the queue of the mail command is full";
            self.queue_log.write(line);
            return Err(SignupError::MailQueueFull);
        }
        let by_network = || self.network.take(network_of(client), now);
        let by_client = &mut self.mails_by_client;
        let allowed = by_client.take_if(KeyAddress::from(client), now, by_network);
        allowed.map_err(SignupError::TooManyMails)?;
        if self.mails_today.0 != now.day() {
            self.mails_today = (now.day(), 0);
        }
        if self.mails_today.1 >= self.daily_max.saturating_mul(MAILS_PER_KEY) {
            return Err(daily_limit(now));
        }
        let mailbox = email::mailbox(&address);
        if self.mails_to_mailbox.take(&mailbox, now).is_err() {
            // The response must not reveal whether others had mail sent there.
            return Ok(SignupResponse::LinkMailed);
        }
        let token = self.sign(TokenPurpose::AddressHolder, &address, expiry(now));
        let link = format!("{}/keys?pass={token}", self.base_url);
        if !mailer.send(&address, &self.base_url, &link) {
            return Err(self.fail(&"the thread that sends mail has ended"));
        }
        self.mails_today.1 += 1;
        Ok(SignupResponse::LinkMailed)
    }

    fn issue(&mut self, client: IpAddr, token: &str, now: UnixSeconds) -> SignupResult {
        let token = self.verify_holder(client, token, now)?;
        let (address, daily_max) = (&token.address, self.daily_max);
        let check = |records: &KeyRecords| {
            let keys = records.as_slice();
            check_issue(keys, address, token.number, daily_max, now)
        };
        // Without the lock first: a rejected request reads no file and delays no other.
        check(&self.records)?;
        let allowed = self.network.take(network_of(client), now);
        allowed.map_err(SignupError::RateLimited)?;
        let (key, record) = KeyRecord::random(&self.prefix, (address, Tier::Free), now);
        let mut checked = Ok(());
        let check = &mut |records: &KeyRecords| {
            checked = check(records);
            checked.is_ok()
        };
        let added = match &self.sharing {
            None => self.store.add(&record, check),
            Some(sharing) => Ok((sharing.add)(&record, check)),
        };
        let is_added = added.map_err(|error| self.store_failed(&error))?;
        checked?;
        is_added.then_some(()).ok_or(SignupError::Unavailable)?;
        // The key is valid even if this fails, which is logged.
        let _ = self.refresh();
        Ok(self.keys(address, self.renewed(&token, now), Some(key), None))
    }

    fn revoke(&mut self, client: IpAddr, token: &str, id: &str, now: UnixSeconds) -> SignupResult {
        let token = self.verify_holder(client, token, now)?;
        let id: KeyId = id.trim().parse().map_err(|_| SignupError::UnknownKey)?;
        // Keys of other tiers are not issued here, so that a client could not replace one.
        let is_free = |key: &&KeyRecord| key.id == id && key.tier == Tier::Free;
        let found = keys_of(self.records.as_slice(), &token.address).find(is_free);
        if found.ok_or(SignupError::UnknownKey)?.revoked.is_none() {
            let revoked = self.store.set_revoked(id, true, now);
            revoked.map_err(|error| self.store_failed(&error))?;
            // The key is revoked even if this fails, which is logged.
            let _ = self.refresh();
        }
        Ok(self.keys(&token.address, self.renewed(&token, now), None, Some(id)))
    }

    /// Verifies the token of a client that has proven an address.
    fn verify_holder(
        &self,
        client: IpAddr,
        token: &str,
        now: UnixSeconds,
    ) -> Result<SignedToken, SignupError> {
        let token = SignedToken::verify(token, TokenPurpose::AddressHolder, &self.secret, now)?;
        let is_valid = match self.mailer {
            None => token.address == client.into(),
            // Otherwise it was signed before the setting was changed.
            Some(_) => token.address.as_str().contains('@'),
        };
        is_valid.then_some(token).ok_or(SignupError::InvalidToken)
    }

    /// Returns the expiry of the next token. An IP address is proven again by each request; the finder
    /// of a mailed link must not be able to renew it forever.
    fn renewed(&self, token: &SignedToken, now: UnixSeconds) -> UnixSeconds {
        match self.mailer {
            None => expiry(now),
            Some(_) => token.expires,
        }
    }

    fn keys(
        &self,
        address: &KeyAddress,
        expires: UnixSeconds,
        issued: Option<NewKey>,
        revoked: Option<KeyId>,
    ) -> SignupResponse {
        let keys = keys_of(self.records.as_slice(), address);
        SignupResponse::Keys {
            address: address.clone(),
            keys: keys.cloned().collect(),
            token: self.sign(TokenPurpose::AddressHolder, address, expires),
            issued,
            revoked,
        }
    }

    fn sign(&self, purpose: TokenPurpose, address: &KeyAddress, expires: UnixSeconds) -> String {
        let token = SignedToken {
            address: address.clone(),
            number: number_of(self.records.as_slice(), address),
            expires,
        };
        token.sign(purpose, &self.secret)
    }

    /// Takes over changes of the keys by others.
    fn refresh(&mut self) -> Result<(), SignupError> {
        let read = self.store.current();
        // A change of its own is known even if the file cannot be read.
        self.records = self.store.known();
        read.map(drop).map_err(|error| self.store_failed(&error))
    }

    fn store_failed(&self, error: &KeyStoreError) -> SignupError {
        let failed = self.fail(error);
        // Another process has the lock, and releases it soon.
        if error.is_busy() {
            SignupError::Busy
        } else {
            failed
        }
    }

    /// Logs an internal error.
    fn fail(&self, reason: &dyn Display) -> SignupError {
        self.log.write(&format!("sign-up failed: {reason}"));
        SignupError::Internal
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
