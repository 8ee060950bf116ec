//! Request parsing: from the text of a request to typed values.
//!
//! **In:** a path and a query string, as sent. **Out:** the [`Endpoint`], and a [`Route`] with its
//! parameters parsed and in bounds, or the error message for the client. Also the client address
//! that proxies report, and the form of the service's own address.
//!
//! **Independent of** the data (whether an island, creator or day exists is checked later),
//! sockets, the HTTP library and clocks. Nothing here keeps state.
//!
//! Reading order: `endpoint` (the table), `route` (parsing of targets), `argument`, `parameters`
//! (the query parameters of the lists), `lists` (their parsed queries), `query`, `percent`, `error`; then `loggable`, `forwarded` and `base_url`, each by itself.

mod argument;
mod base_url;
mod endpoint;
mod error;
mod forwarded;
mod lists;
mod loggable;
mod parameters;
mod percent;
mod query;
mod route;

pub use argument::{Argument, CHART_DAYS, DayRef, no_dump};
pub use base_url::{BASE_URL_BYTES_MAX, is_base_url};
pub use endpoint::{Endpoint, Payload, Source};
pub use error::{Quoted, RouteError};
pub use forwarded::{ProxyNetwork, TrustedProxies};
pub use lists::{Filter, Grouping, Kind, LIMIT_DEFAULT, ListQuery, Page, Parameter};
pub use loggable::{KEY_MARK, loggable};
pub use parameters::{CREATOR_PARAMETERS, ISLAND_PARAMETERS};
pub(crate) use percent::RESERVED;
pub use query::{Query, SentKey, SentKeys};
pub use route::{ParsedTarget, Route, parse};
