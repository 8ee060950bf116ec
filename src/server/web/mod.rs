//! Everything outside the API: HTML pages, files for browsers, dumps and sign-up, which need no key and spend
//! no quota.
//!
//! - `request_context`: `Services` and `RequestContext`, from which every response is made, those of the API too
//! - `unmetered`: routes outside the API to their response
//! - `pages`: what all pages share; `page_responses`: responses with pages
//! - `rendered`: pages rendered per request
//! - `rate_limiter`: the rate limit of rendered pages
//! - `signup_handler`: the forms and pages of `/keys`

mod page_responses;
pub(in crate::server) mod pages;
pub(in crate::server) mod rate_limiter;
mod rendered;
pub(in crate::server) mod request_context;
pub(in crate::server) mod signup_handler;
pub(in crate::server) mod unmetered;
