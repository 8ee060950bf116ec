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
const DOWNLOADS_MIN: u32 = 16;
/// Simultaneous downloads of one address. Parallel download programs use fewer.
const DOWNLOADS_PER_ADDRESS_MAX: u32 = 128;
/// Sixteenths of `--memory` for the caches of the workers. Seven are for the gaps that the allocator
/// leaves between blocks, which are largest with bodies of 64 to 200 KiB, and for its arenas, one for each worker.
const CACHES_SIXTEENTHS: usize = 9;

impl Settings {
    pub(in crate::server) fn worker_cache_bytes(&self) -> usize {
        self.memory_bytes / 16 * CACHES_SIXTEENTHS / self.workers
    }

    /// A limiter for connections, with an additional permit for each listener.
    pub(in crate::server) fn connection_limiter(&self, listeners: u32) -> ConnectionLimiter {
        let total = self.connections_max();
        let per_address = u32::from(self.connections.connections_per_address_max);
        limiter(total.saturating_add(listeners), per_address)
    }

    pub(in crate::server) fn download_limiter(&self) -> ConnectionLimiter {
        let in_memory = u32::try_from(self.memory_bytes / DOWNLOAD_BYTES).unwrap_or(u32::MAX);
        let connections = self.connections_max();
        let total = (connections / CONNECTIONS_PER_DOWNLOAD).min(in_memory);
        // The reserve of `OTHER_FDS` stays, so that a key file can be opened in a flood of connections.
        let total = total.min(fds_max() - connections).max(DOWNLOADS_MIN);
        limiter(total, DOWNLOADS_PER_ADDRESS_MAX.min(total / 4))
    }

    /// TLS handshakes that one worker has under way at most.
    #[cfg(feature = "tls")]
    pub(in crate::server) fn handshakes_per_worker(&self) -> usize {
        let total = self.connections_max() / CONNECTIONS_PER_HANDSHAKE;
        (total as usize / self.workers).max(1)
    }

    /// The maximum number of connections: by default as many as there are file descriptors for.
    fn connections_max(&self) -> u32 {
        let fds = fds_max();
        let share = CONNECTIONS_PER_DOWNLOAD;
        let default = u64::from(fds) * u64::from(share) / u64::from(share + 1);
        let default = u32::try_from(default).expect("less than `fds`").max(16);
        self.connections.connections_max.unwrap_or(default).min(fds)
    }
}

/// The number of file descriptors for connections and downloads.
fn fds_max() -> u32 {
    let fds = max_fds().unwrap_or(1024).saturating_sub(OTHER_FDS);
    u32::try_from(fds).unwrap_or(u32::MAX).max(16)
}

fn limiter(total: u32, per_address: u32) -> ConnectionLimiter {
    ConnectionLimiter::new(total, u16::try_from(per_address.max(1)).unwrap_or(u16::MAX))
}
