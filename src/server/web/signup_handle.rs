//! `Window`: where the workers hand in what visitors of `/keys` want, and get what is answered.
//!
//! The desk behind it waits for locks and disks, so it has a thread of its own. A key is shown when the
//! server knows it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::oneshot;

use crate::calendar::UnixSeconds;
use crate::keys::{FREE_KEYS_MAX, NewKey};
use crate::observe::Log;
use crate::server::http::response::ApiResponse;
use crate::server::settings::{Settings, SignUp, StartError};
use crate::server::web::page::uncached_page;
use crate::server::web::rate_limiter::Visits;
use crate::server::web::signup_form::Unfit;
use crate::signup::{Desk, Mailer, Mode, Refused, Reply, Say, Terms, Wish};
use crate::site::{self, AddressKeys, ListedKey};
use crate::sync::PollTrigger;

/// Visitors who wait for the desk: a look takes microseconds, an issue what it takes to write the key file. Who
/// finds so many waits no longer.
const WAITING_MAX: usize = 64;
/// Who has waited for so long is no longer served: most have gone, and a key for them would be lost.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// For the server to take in a key.
const PATIENCE: Duration = Duration::from_secs(2);

struct Asked {
    client: IpAddr,
    wish: Wish,
    moment: UnixSeconds,
    since: Instant,
    tell: oneshot::Sender<Reply>,
}

/// The workers' side.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    queue: SyncSender<Asked>,
    visits: Arc<Visits>,
    /// The service's own address.
    pub(crate) base_url: String,
    is_shared: bool,
    free_limit: u32,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Window {
    /// Opens sign-up, if the settings want it. `keys` looks after the keys that the server knows.
    pub(crate) fn open(
        settings: &Settings,
        base_url: &str,
        keys: &PollTrigger,
        visits: &Arc<Visits>,
        log: &Log,
    ) -> Result<Option<Window>, StartError> {
        let (Some(sign_up), Some(state)) = (&settings.sign_up, &settings.state) else {
            return Ok(None);
        };
        let say = || -> Say {
            let log = log.clone();
            Box::new(move |line: &str| log.write(line))
        };
        let mode = match sign_up {
            SignUp::Ip => Mode::Ip,
            SignUp::Email(command) => {
                Mode::Email(Mailer::start(command, say()).map_err(StartError::SignUp)?)
            }
        };
        if settings.base_url.is_none() {
            log.write(&format!(
                "browsers can sign up only at {base_url}/keys or by IP address; set --base-url to allow another name"
            ));
        }
        let terms = Terms {
            daily_max: settings.sign_up_daily,
        };
        let prefix = settings.key_prefix.clone();
        let desk = Desk::open(state, mode, prefix, base_url, terms, say());
        let desk = desk.map_err(StartError::SignUp)?;
        let (queue, asked) = sync_channel(WAITING_MAX);
        let keys = keys.clone();
        std::thread::Builder::new()
            .name("signup".into())
            .spawn(move || attend(desk, &keys, &asked))?;
        Ok(Some(Window {
            queue,
            visits: Arc::clone(visits),
            base_url: base_url.to_owned(),
            is_shared: *sign_up == SignUp::Ip,
            free_limit: settings.limits.free,
        }))
    }

    /// The page that answers a visitor.
    pub(crate) async fn answer(
        &self,
        client: IpAddr,
        wish: Result<Wish, Unfit>,
        moment: UnixSeconds,
    ) -> ApiResponse {
        let wish = match wish {
            Ok(wish) => wish,
            Err((status, message)) => {
                return told(status, site::keys_refused(&message, None), None);
            }
        };
        let pass = wish.pass_of_holder().map(str::to_owned);
        // Before the queue, which is not long.
        if let Err(retry_after_seconds) = self.visits.count(client, moment) {
            let hurried = Refused::TooFast {
                retry_after_seconds,
            };
            return self.page(Reply::Refused(hurried), pass);
        }
        let (tell, told) = oneshot::channel();
        let asked = Asked {
            client,
            wish,
            moment,
            since: Instant::now(),
            tell,
        };
        let reply = match self.queue.try_send(asked) {
            Ok(()) => told.await.unwrap_or(Reply::Refused(Refused::Failed)),
            Err(TrySendError::Full(_)) => Reply::Refused(Refused::Busy),
            // Its thread is gone, which waiting does not mend.
            Err(TrySendError::Disconnected(_)) => Reply::Refused(Refused::Failed),
        };
        self.page(reply, pass)
    }

    /// The page of a reply to somebody who came with that pass.
    fn page(&self, reply: Reply, pass: Option<String>) -> ApiResponse {
        match reply {
            Reply::Ask { pass } => told(StatusCode::OK, site::keys_form(&pass), None),
            Reply::Mailed => told(StatusCode::OK, site::keys_mailed(), None),
            Reply::Keys {
                address,
                keys,
                pass,
                issued,
                revoked,
            } => {
                let keys = keys.into_iter().map(|key| ListedKey {
                    id: key.id.to_string(),
                    tier: key.tier,
                    issued: key.issued,
                    revoked: key.revoked,
                });
                let list = AddressKeys {
                    address: address.as_str(),
                    keys: keys.collect(),
                    token: &pass,
                    issued: issued.as_ref().map(NewKey::reveal),
                    revoked: revoked.map(|id| id.to_string()),
                    free_max: FREE_KEYS_MAX,
                    is_shared: self.is_shared,
                    free_limit: self.free_limit,
                    base_url: &self.base_url,
                };
                told(StatusCode::OK, site::keys_list(&list), None)
            }
            Reply::Refused(refused) => {
                let message = refused.to_string();
                // Where the connection proves who it is, nothing but the page is needed.
                let is_good = !matches!(refused, Refused::Invalid | Refused::Expired);
                let pass = pass.filter(|_| is_good && !self.is_shared);
                let page = site::keys_refused(&message, pass.as_deref());
                told(status(refused), page, refused.retry_after_seconds())
            }
        }
    }
}

/// What a browser is answered where there is no sign-up.
pub(crate) fn closed() -> ApiResponse {
    told(StatusCode::NOT_FOUND, site::keys_closed(), None)
}

fn told(status: StatusCode, page: String, retry_after: Option<u32>) -> ApiResponse {
    uncached_page(status, page, retry_after, true)
}

fn status(refused: Refused) -> StatusCode {
    match refused {
        Refused::Invalid | Refused::Expired => StatusCode::FORBIDDEN,
        Refused::Used | Refused::TooManyActive => StatusCode::CONFLICT,
        Refused::NoEmail => StatusCode::BAD_REQUEST,
        Refused::UnknownKey => StatusCode::NOT_FOUND,
        Refused::TooManyLately { .. }
        | Refused::TooFast { .. }
        | Refused::TooManyMails { .. }
        | Refused::DayFull { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refused::Closed | Refused::MailsWait | Refused::Busy | Refused::Failed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

/// The desk's side: ends with the last window.
fn attend(mut desk: Desk, keys: &PollTrigger, asked: &Receiver<Asked>) {
    while let Ok(Asked {
        client,
        wish,
        moment,
        since,
        tell,
    }) = asked.recv()
    {
        if since.elapsed() > WAIT_MAX {
            // Who asked may have gone.
            let _ = tell.send(Reply::Refused(Refused::Busy));
            continue;
        }
        let reply = desk.serve(client, wish, moment);
        let is_change = matches!(
            reply,
            Reply::Keys {
                issued: Some(_),
                ..
            } | Reply::Keys {
                revoked: Some(_),
                ..
            }
        );
        if is_change {
            // So that a key works when it is seen, and no longer when it is said to be revoked.
            let _ = keys.poll_now().recv_timeout(PATIENCE);
        }
        // Who asked may have gone.
        let _ = tell.send(reply);
    }
}
