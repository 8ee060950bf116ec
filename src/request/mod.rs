//! From the text of a request to typed values.
//!
//! **In:** the path and the query string, as sent. **Out:** a [`Route`] with its parameters parsed
//! and in bounds, or the message that tells the client what is wrong with them. Beside it, the
//! address of the client that proxies speak of, and that of the service itself.
//!
//! **Must never know:** the data (whether an island, creator or day exists is judged later),
//! sockets and the HTTP library. Nothing here looks at a clock or keeps state.

mod base_url;
mod dumps;
mod forwarded;
mod lists;
mod loggable;
mod outside;
mod percent;
mod query;
mod route;
mod route_error;
mod shown;
mod template;

pub use base_url::{BASE_URL_BYTES_MAX, BASE_URL_FORM, is_base_url};
pub use dumps::no_dump;
pub use forwarded::{MalformedNetwork, ProxyNetwork, TrustedProxies};
pub use lists::{CreatorQuery, IslandQuery, LIMIT_MAX, Page};
pub use loggable::loggable;
pub use outside::{Outside, SiteFile};
pub use percent::{BrokenEncoding, decode_form, decode_segment};
pub use query::{BadRequest, Pairs, Parameter, SentKey, check, key};
pub use route::{DayRef, Parsed, Route, parse};
pub use route_error::RouteError;
pub use template::Template;
