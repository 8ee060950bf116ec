//! How many connections and downloads there may be, and how `--memory` is divided.

use crate::observe::descriptors_max;
use crate::server::conn::limiter::Room;
use crate::server::settings::{DESCRIPTORS_ASIDE, Settings};

/// One in so many connections may send a dump or a long body. A descriptor is kept for each: dumps have one.
const DOWNLOADS_SHARE: u32 = 8;
/// What a download holds in memory: a piece of 128 KiB, 64 KiB to inflate, and a decompressor (253 KiB was the
/// most that was measured). All downloads together take about as much as `--memory` again.
const DOWNLOAD_BYTES: usize = 256 * 1024;
/// Downloads that there may be however little memory and however few connections there are.
const DOWNLOADS_MIN: u32 = 16;
/// Downloads of one address at a time. Programs that download in parallel use fewer.
const DOWNLOADS_OF_ADDRESS_MAX: u32 = 128;
/// The caches of all workers together have one part in so many of `--memory`.
const WORKER_CACHES_SHARE: usize = 8;
/// The caches of the snapshot have so many sixteenths of `--memory`. Three more are for the holes that the
/// allocator keeps between blocks of all lengths: a seventh of what is allocated, measured.
const SNAPSHOT_CACHES_SIXTEENTHS: usize = 11;

impl Settings {
    /// The part of `--memory` that the cache of one worker has.
    pub(in crate::server) fn worker_cache_bytes(&self) -> usize {
        self.memory_bytes / WORKER_CACHES_SHARE / self.workers
    }

    /// The part of `--memory` that the caches of the snapshot have.
    pub(in crate::server) fn snapshot_cache_bytes(&self) -> usize {
        self.memory_bytes / 16 * SNAPSHOT_CACHES_SIXTEENTHS
    }

    /// Room for connections, and for so many more that listeners hold places for.
    pub(in crate::server) fn room_for_connections(&self, waiting: u32) -> Room {
        let in_all = self.connections_max();
        let of_address = u32::from(self.connections.of_address);
        Room::new(
            in_all.saturating_add(waiting),
            share(of_address, in_all / 2),
        )
    }

    /// Room for the dumps and long bodies that are sent at a time.
    pub(in crate::server) fn room_for_downloads(&self) -> Room {
        let in_memory = u32::try_from(self.memory_bytes / DOWNLOAD_BYTES).unwrap_or(u32::MAX);
        let in_all = (self.connections_max() / DOWNLOADS_SHARE).min(in_memory);
        let in_all = in_all.max(DOWNLOADS_MIN);
        Room::new(in_all, share(DOWNLOADS_OF_ADDRESS_MAX, in_all / 4))
    }

    /// How many connections there may be: as many as there are descriptors for.
    fn connections_max(&self) -> u32 {
        let descriptors = descriptors_max().unwrap_or(1024);
        let room = descriptors.saturating_sub(DESCRIPTORS_ASIDE).max(16);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let with_files = u64::from(room) * u64::from(DOWNLOADS_SHARE);
        let with_files = with_files / u64::from(DOWNLOADS_SHARE + 1);
        let with_files = u32::try_from(with_files).expect("less than before").max(16);
        self.connections.in_all.unwrap_or(with_files).min(room)
    }
}

/// The places that one address may have: never more than its share of all, however few there are.
fn share(of_address_max: u32, share: u32) -> u16 {
    let of_address = of_address_max.min(share).max(1);
    u16::try_from(of_address).unwrap_or(u16::MAX)
}
