//! HTTP: from a request head to a response. `pipeline` is the whole service as one function.

pub(in crate::server) mod api_error;
pub(in crate::server) mod body;
pub(in crate::server) mod conditional;
pub(in crate::server) mod connection;
pub(in crate::server) mod identity;
pub(in crate::server) mod lines;
pub(in crate::server) mod negotiate;
pub(in crate::server) mod pipeline;
pub(in crate::server) mod request_head;
pub(in crate::server) mod request_id;
pub(in crate::server) mod response;
pub(in crate::server) mod response_context;
pub(in crate::server) mod worker;
pub(in crate::server) mod worker_cache;
