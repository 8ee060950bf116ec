//! What the people who run the server see of it: counters, figures of the process, a line for each
//! request, and what the service manager is told.
//!
//! **In:** events, as plain numbers and text. **Out:** a page in Prometheus' text format, lines in a
//! file, datagrams to systemd.
//!
//! **Must never know:** who asks, what is answered, sockets of clients. No secret comes here: what a
//! line may hold is decided where it is written.

mod access_log;
mod exposition;
mod histogram;
mod process;
mod systemd;
mod tally;

pub use access_log::{AccessLog, AccessLogError, AccessPen};
pub use exposition::{Exposition, Kind};
pub use histogram::Histogram;
pub use process::{ProcessFigures, descriptors_max};
pub use systemd::{Notifier, Supervisor};
pub use tally::{Count, Cut, Shape, Tally};
