//! What changes while the server runs, looked after off the workers' threads: keys, data, days, and the
//! log that tells of it.

pub(super) mod gates;
pub(super) mod key_reload;
pub(super) mod log;
pub(super) mod lookout;
pub(super) mod once;
pub(super) mod reload;
pub(super) mod seldom;
