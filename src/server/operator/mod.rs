//! What is for those who run the server: signals, the service manager, metrics and readiness.

pub(super) mod admin;
pub(super) mod metrics;
pub(super) mod steward;
