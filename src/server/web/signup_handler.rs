//! Sign-up at `/keys`: an HTTP form in, a page out.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::calendar::UnixSeconds;
use crate::keys::{KeySharing, KeyStore, NewKey};
use crate::observe::{LocalCounter, Log};
use crate::request::Query;
use crate::server::http::api_error::ApiError;
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::{ApiResponse, InvalidForm};
use crate::server::settings::{Settings, StartError};
use crate::server::web::pages::private_page;
use crate::server::web::rate_limiter::PageRateLimiter;
use crate::signup::{SignupError, SignupRequest, SignupResponse, SignupResult, SignupService};
use crate::site::{self, AddressKeys, ListedKey, SiteSettings};
use crate::sync::PollTrigger;

/// Maximum length of a form, which has an address and a token.
const FORM_BYTES_MAX: usize = 4096;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Time to wait until the server has loaded a new or revoked key.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests that waited longer are rejected: most of these clients have given up, and a key for them
/// would be lost.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct SignupHandler {
    /// Of all workers. A request waits for it before it takes one of the threads for blocking work.
    service: Arc<Mutex<SignupService>>,
    /// Reloads the server's keys.
    poller: PollTrigger,
    /// Whether keys belong to an IP address, which several people may share.
    is_shared: bool,
    pub(crate) failed_mails: Arc<LocalCounter>,
}

impl SignupHandler {
    /// Starts the service if the settings enable sign-up. `poller` reloads the server's keys from the store.
    pub(crate) fn start(
        settings: &Settings,
        base_url: &str,
        (store, poller): (&Option<KeyStore>, &PollTrigger),
        sharing: Option<KeySharing>,
        log: &Log,
    ) -> Result<Option<SignupHandler>, StartError> {
        let (Some(policy), Some(store)) = (&settings.signup, store) else {
            return Ok(None);
        };
        if settings.base_url.is_none() {
            log.write(&format!(
                "sign-up in a browser works only at {base_url}/keys, localhost or an IP address of this server; set --base-url to allow another host name"
            ));
        }
        let prefix = settings.key_prefix.clone();
        let keys = (store.clone(), sharing);
        let service = SignupService::open(keys, policy, prefix, base_url, log.clone());
        let service = service.map_err(StartError::SignUp)?;
        Ok(Some(SignupHandler {
            failed_mails: service.failed_mails(),
            service: Arc::new(Mutex::new(service)),
            poller: poller.clone(),
            is_shared: policy.mailer.is_none(),
        }))
    }

    /// Parses a request for `/keys`. Returns `None` if the body is to be read, which may not have
    /// arrived.
    pub(crate) fn parse(
        base_url: &str,
        head: &RequestHead<'_>,
    ) -> Result<Option<SignupRequest>, InvalidForm> {
        let is_posted = head.method == Method::POST;
        if !is_same_origin(head.headers, base_url, is_posted) {
            let message =
                format!("This request came from another site. Use the page at {base_url}/keys");
            return Err((StatusCode::FORBIDDEN, message));
        }
        if is_posted {
            return Ok(None);
        }
        let Ok([token]) = Query::split(head.query).values(&["pass"]) else {
            let message = "The link is damaged. Request another one.";
            return Err((StatusCode::BAD_REQUEST, message.to_owned()));
        };
        let token = token.map(Cow::into_owned);
        Ok(Some(SignupRequest::Show { token }))
    }

    /// Returns a parsed request, or reads the form from the body. The timeout of request heads applies.
    pub(crate) async fn read(
        parsed: Result<Option<SignupRequest>, InvalidForm>,
        body: Incoming,
    ) -> Result<SignupRequest, InvalidForm> {
        if let Some(request) = parsed? {
            return Ok(request);
        }
        let read = Limited::new(body, FORM_BYTES_MAX).collect().await;
        let Ok(read) = read else {
            let message = "The form is too long or incomplete.";
            return Err((StatusCode::PAYLOAD_TOO_LARGE, message.to_owned()));
        };
        let bytes = read.to_bytes();
        let request = std::str::from_utf8(&bytes).ok().and_then(parse_form);
        let message = "The form has no valid action. Send do=mail with email, do=issue, \
            or do=revoke with id, and include the field pass from the page.";
        request.ok_or_else(|| (StatusCode::BAD_REQUEST, message.to_owned()))
    }

    pub(crate) async fn respond(
        &self,
        (limiter, site): (&PageRateLimiter, &SiteSettings),
        (client, accepts_html): (IpAddr, bool),
        request: Result<SignupRequest, InvalidForm>,
        now: UnixSeconds,
    ) -> ApiResponse {
        let refused = |(status, message): InvalidForm, token: Option<&str>, retry_after| {
            if accepts_html {
                let html = site::keys_refused(&message, token, site);
                return private_page(status, html, retry_after);
            }
            let error = ApiError::SignUp {
                status,
                message,
                retry_after,
            };
            let mut response = ApiResponse::from(error);
            response.keep_same_origin();
            response
        };
        let request = match request {
            Ok(request) => request,
            Err(invalid) => return refused(invalid, None, None),
        };
        let token = match &request {
            SignupRequest::Show { token } => token.clone(),
            SignupRequest::MailLink { .. } => None,
            SignupRequest::Issue { token } | SignupRequest::Revoke { token, .. } => {
                Some(token.clone())
            }
        };
        let response = match limiter.check(client, now) {
            Err(seconds) => Err(SignupError::RateLimited(seconds)),
            Ok(()) => self.handle(client, request, now).await,
        };
        match response {
            Ok(response) => private_page(StatusCode::OK, self.page(site, response), None),
            Err(error) => {
                let is_valid =
                    !matches!(error, SignupError::InvalidToken | SignupError::ExpiredToken);
                // With proof by IP address, the page needs no token.
                let token = token.filter(|_| is_valid && !self.is_shared);
                let invalid = (status(error), error.to_string());
                refused(invalid, token.as_deref(), error.retry_after_seconds())
            }
        }
    }

    /// Handles a request after all earlier ones, on a thread that may block. Reloads the keys after each
    /// change and before the response, so that a key works when it is shown, and no longer when it is
    /// shown as revoked.
    async fn handle(
        &self,
        client: IpAddr,
        request: SignupRequest,
        now: UnixSeconds,
    ) -> SignupResult {
        let queued = Instant::now();
        let mut service = Arc::clone(&self.service).lock_owned().await;
        if queued.elapsed() > QUEUE_TIMEOUT {
            return Err(SignupError::Busy);
        }
        let poller = self.poller.clone();
        let handled = spawn_blocking(move || {
            let response = service.handle(client, request, now);
            if let Ok(SignupResponse::Keys {
                issued, revoked, ..
            }) = &response
                && (issued.is_some() || revoked.is_some())
            {
                // After the timeout the key works a moment later.
                let _ = poller.poll_now().recv_timeout(RELOAD_TIMEOUT);
            }
            response
        });
        // An error means that it has panicked.
        handled.await.unwrap_or(Err(SignupError::Internal))
    }

    fn page(&self, site: &SiteSettings, response: SignupResponse) -> String {
        match response {
            SignupResponse::EmailForm { token } => site::keys_form(&token, site),
            SignupResponse::LinkMailed => site::keys_mailed(site),
            SignupResponse::Keys {
                address,
                keys,
                token,
                issued,
                revoked,
            } => {
                let keys = keys.into_iter().map(|key| ListedKey {
                    id: key.id.to_string(),
                    tier: key.tier.as_str(),
                    issued: key.issued.to_string(),
                    revoked: key.revoked.map(|time| time.to_string()),
                });
                site::keys_list(&AddressKeys {
                    address: address.as_str(),
                    keys: keys.collect(),
                    token: &token,
                    issued: issued.as_ref().map(NewKey::reveal),
                    revoked: revoked.map(|id| id.to_string()),
                    is_shared: self.is_shared,
                    service: site,
                })
            }
        }
    }
}

fn status(error: SignupError) -> StatusCode {
    match error {
        SignupError::InvalidToken | SignupError::ExpiredToken => StatusCode::FORBIDDEN,
        SignupError::UsedToken | SignupError::TooManyActive => StatusCode::CONFLICT,
        SignupError::InvalidEmail => StatusCode::BAD_REQUEST,
        SignupError::UnknownKey => StatusCode::NOT_FOUND,
        SignupError::TooManyRecent(_)
        | SignupError::RateLimited(_)
        | SignupError::TooManyMails(_)
        | SignupError::DailyLimit(_) => StatusCode::TOO_MANY_REQUESTS,
        SignupError::Closed
        | SignupError::Unavailable
        | SignupError::MailQueueFull
        | SignupError::Busy
        | SignupError::Internal => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns `true` if a request for `/keys` was made under a name of this service, and a form sent by a
/// browser is from one of its pages. A client without an origin, which is no browser, acts for itself
/// only.
///
/// A page of another site can make its reader's browser send forms here, for the reader's IP address;
/// but browsers send the origin of every form. A page whose own name was made to resolve to this server
/// (DNS rebinding) has the same origin for the browser, and may read responses under that name; but
/// browsers send the name as `Host`. A link may come from any site, so `Sec-Fetch-Site` counts for forms
/// only.
fn is_same_origin(headers: &HeaderMap, base_url: &str, is_posted: bool) -> bool {
    let lower = |value: &hyper::header::HeaderValue| {
        value.to_str().unwrap_or_default().to_ascii_lowercase()
    };
    let host = headers.get(HOST).map(lower);
    let own = origin_of(base_url);
    let own_name = own
        .split_once("://")
        .map(|(_, authority)| name_of(authority));
    let is_known = |host: &str| is_certain(host) || Some(name_of(host)) == own_name;
    // Without a host, as HTTP/1.0 allows, the client is no browser.
    if !host.as_deref().is_none_or(is_known) {
        return false;
    }
    // A browser sends each at most once. Of several lines, the first may be of another program than the rest.
    let is_repeated = |name| headers.get_all(name).iter().nth(1).is_some();
    if is_repeated(FETCH_SITE) || is_repeated(ORIGIN) {
        return false;
    }
    let site = headers.get(FETCH_SITE);
    if is_posted && site.is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    headers.get(ORIGIN).map(lower).is_none_or(|origin| {
        let is_of = |host: &str| is_certain(host) && origin == format!("http://{host}");
        origin == own || host.as_deref().is_some_and(is_of)
    })
}

/// Returns `true` for `localhost` and IP addresses. Any other name may belong to someone who made it
/// resolve to this server.
fn is_certain(host: &str) -> bool {
    let name = name_of(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns the scheme, host and port of a URL, without the scheme's default port.
fn origin_of(url: &str) -> String {
    let url = url.to_ascii_lowercase();
    let Some((scheme, rest)) = url.split_once("://") else {
        return String::new();
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let default = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.strip_suffix(default).unwrap_or(authority);
    format!("{scheme}://{authority}")
}

/// Parses a form; `None` if its action is unknown, or a field is missing or there twice.
fn parse_form(form: &str) -> Option<SignupRequest> {
    let fields = Query::split(Some(form)).values(&["do", "pass", "email", "id"]);
    let [action, token, email, id] = fields.ok()?.map(|field| field.map(Cow::into_owned));
    let token = token.unwrap_or_default();
    Some(match action?.as_str() {
        "mail" => SignupRequest::MailLink {
            email: email?,
            token,
        },
        "issue" => SignupRequest::Issue { token },
        "revoke" => SignupRequest::Revoke { token, id: id? },
        _ => return None,
    })
}

#[cfg(test)]
#[path = "signup_handler_tests.rs"]
mod tests;
