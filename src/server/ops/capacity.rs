//! The numbers of connections and downloads, and the division of `--memory`.

use crate::observe::max_fds;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::settings::{OTHER_FDS, Settings};

/// One connection in eight can send a dump or a long body. Each of them has a file descriptor in
/// reserve, since a dump needs one.
const CONNECTIONS_PER_DOWNLOAD: u32 = 8;
/// One connection in eight can be in its TLS handshake, which takes memory and no quota.
#[cfg(feature = "tls")]
const CONNECTIONS_PER_HANDSHAKE: u32 = 8;
/// Memory of a download: a piece of 128 KiB, 64 KiB to inflate, and a decompressor (253 KiB at
/// most, measured). All downloads together use about as much as `--memory` again.
const DOWNLOAD_BYTES: usize = 256 * 1024;
/// Minimum number of simultaneous downloads.
const DOWNLOADS_MIN: u32 = 16;
/// Simultaneous downloads of one address. Parallel download programs use fewer.
const DOWNLOADS_PER_ADDRESS_MAX: u32 = 128;
/// The worker caches together have one eighth of `--memory`.
const WORKER_CACHES_SHARE: usize = 8;
/// Sixteenths of `--memory` for the caches of the snapshot, beside two for those of the workers.
/// Three are for the gaps that the allocator leaves between blocks: a seventh of what is allocated,
/// measured.
const SNAPSHOT_CACHES_SIXTEENTHS: usize = 11;

impl Settings {
    /// The size of the cache of one worker.
    pub(in crate::server) fn worker_cache_bytes(&self) -> usize {
        self.memory_bytes / WORKER_CACHES_SHARE / self.workers
    }

    /// The size of the caches of the snapshot.
    pub(in crate::server) fn snapshot_cache_bytes(&self) -> usize {
        self.memory_bytes / 16 * SNAPSHOT_CACHES_SIXTEENTHS
    }

    /// A limiter for connections, with an additional permit for each listener.
    pub(in crate::server) fn connection_limiter(&self, listeners: u32) -> ConnectionLimiter {
        let total = self.connections_max();
        let per_address = u32::from(self.connections.of_address);
        limiter(total.saturating_add(listeners), per_address)
    }

    /// A limiter for simultaneous dumps and long bodies.
    pub(in crate::server) fn download_limiter(&self) -> ConnectionLimiter {
        let in_memory = u32::try_from(self.memory_bytes / DOWNLOAD_BYTES).unwrap_or(u32::MAX);
        let total = (self.connections_max() / CONNECTIONS_PER_DOWNLOAD).min(in_memory);
        let total = total.max(DOWNLOADS_MIN);
        limiter(total, DOWNLOADS_PER_ADDRESS_MAX.min(total / 4))
    }

    /// TLS handshakes that one worker has under way at most.
    #[cfg(feature = "tls")]
    pub(in crate::server) fn handshakes_per_worker(&self) -> usize {
        let in_all = self.connections_max() / CONNECTIONS_PER_HANDSHAKE;
        (in_all as usize / self.workers).max(1)
    }

    /// The maximum number of connections: by default as many as there are file descriptors for.
    fn connections_max(&self) -> u32 {
        let fds = max_fds().unwrap_or(1024).saturating_sub(OTHER_FDS);
        let fds = u32::try_from(fds).unwrap_or(u32::MAX).max(16);
        let share = CONNECTIONS_PER_DOWNLOAD;
        let default = u64::from(fds) * u64::from(share) / u64::from(share + 1);
        let default = u32::try_from(default).expect("less than `fds`").max(16);
        self.connections.in_all.unwrap_or(default).min(fds)
    }
}

fn limiter(total: u32, per_address: u32) -> ConnectionLimiter {
    ConnectionLimiter::new(total, u16::try_from(per_address.max(1)).unwrap_or(u16::MAX))
}
