//! HTML pages and the sign-up forms: everything that browsers show. Nothing here spends quota.

pub(in crate::server) mod page;
pub(in crate::server) mod pages;
pub(in crate::server) mod rate_limiter;
pub(in crate::server) mod signup_form;
pub(in crate::server) mod signup_handle;
pub(in crate::server) mod unmetered;
