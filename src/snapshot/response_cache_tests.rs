//! Numbered routes, requested by numbered clients.

use super::*;
use crate::calendar::UnixSeconds;
use crate::snapshot::EntityTag;

/// Bytes charged for a response of 1,000 bytes, with a route of six digits.
const ENTRY_BYTES: usize = 1_000 + 6 + BLOCKS * ALLOCATION_BYTES + ResponseCache::entry_bytes();

impl ResponseCache {
    /// Bytes charged, by the queues and by the entries.
    fn charged(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap());
        shards.fold((0, 0), |(queued, charged), shard| {
            let entries: usize = shard.entries.values().map(|entry| entry.bytes).sum();
            let queues = shard.probation.bytes + shard.protected.bytes;
            (queued + queues, charged + entries)
        })
    }
}

fn route(key: u32) -> Route {
    Route::Creator(format!("{key:06}"))
}

/// A response that differs from those of other keys.
fn found(key: u32, bytes: usize) -> Encoded {
    let mut content = vec![0; bytes];
    let key = key.to_le_bytes();
    let bytes = bytes.min(key.len());
    content[..bytes].copy_from_slice(&key[..bytes]);
    Encoded {
        content: Content::Whole(content.into()),
        etag: EntityTag::new(UnixSeconds(0), 0, false),
        gzip: false,
        links: None,
        next_due: None,
    }
}

/// Requests a key as a client does. Returns whether the cache had it.
fn request(
    cache: &ResponseCache,
    key: u32,
    client: u64,
    bytes: usize,
    admission: Admission,
) -> bool {
    let route = route(key);
    let wanted = found(key, bytes);
    let bytes_of = |found: Encoded| found.content.into_bytes().unwrap();
    let context = ReadContext::with_content(client, false);
    match cache.get(&route, context) {
        Ok(found) => {
            let (found, wanted) = (bytes_of(found), bytes_of(wanted));
            assert!(found.starts_with(&wanted[..found.len().min(wanted.len()).min(4)]));
            true
        }
        Err(hash) => {
            cache.insert(hash, (&route, &wanted), context, admission);
            false
        }
    }
}

#[test]
fn entries_never_take_more_than_the_bytes_of_the_cache() {
    arbtest::arbtest(|u| {
        let cache = ResponseCache::new(SHARDS * 10_000);
        for _ in 0..u.int_in_range(0..=2000)? {
            let key: u32 = u.int_in_range(0..=300)?;
            let client = u.int_in_range(0..=2)?;
            let admission = *u.choose(&[Admission::Immediate, Admission::OnSecondRequest])?;
            let bytes = u.int_in_range(0..=11_000)?;
            request(&cache, key, client, bytes, admission);
            let (queued, charged) = cache.charged();
            assert_eq!(queued, charged);
            assert!(charged <= SHARDS * 10_000);
            // Were there more, new entries would evict protected ones.
            for shard in &cache.shards {
                let shard = shard.lock().unwrap();
                assert!(shard.protected.bytes <= 10_000 - 10_000 / PROBATION_SHARE);
            }
        }
        Ok(())
    });
}

/// Requests a response of 1,000 bytes that is cached immediately.
fn request_1000(cache: &ResponseCache, key: u32, client: u64) -> bool {
    request(cache, key, client, 1_000, Admission::Immediate)
}

/// Returns how often a request for one of a thousand keys that two clients use is a miss, while a
/// third client requests other keys, each `times` times, `sweep` of them between two uses of one
/// key.
fn lost(times: u32, sweep: u32) -> usize {
    const IN_USE: u32 = 1_000;
    // Space for twice as much as is in use: shards are not filled evenly.
    let cache = ResponseCache::new(2_000 * ENTRY_BYTES);
    for client in [1, 2] {
        for key in 0..IN_USE {
            request_1000(&cache, key, client);
        }
    }
    let mut others = IN_USE..;
    let mut lost = 0;
    for round in 0..20_000_u32 {
        for key in others.by_ref().take((sweep / IN_USE) as usize) {
            for _ in 0..times {
                request_1000(&cache, key, 3);
            }
        }
        let client = 1 + u64::from(round / IN_USE % 2);
        lost += usize::from(!request_1000(&cache, round % IN_USE, client));
    }
    lost
}

#[test]
fn one_client_evicts_nothing_that_others_use() {
    for times in [1, 2, 10] {
        for sweep in [1_000, 10_000] {
            assert_eq!(lost(times, sweep), 0, "{times} times, {sweep} between");
        }
    }
}

#[test]
fn an_empty_cache_takes_little_memory() {
    for bytes_max in [0, 1, 1 << 40, usize::MAX] {
        let cache = ResponseCache::new(bytes_max);
        assert!((1..=KEYS_MAX).contains(&cache.recent.len()));
    }
}

#[test]
fn a_cheap_response_is_cached_on_its_second_request() {
    let cache = ResponseCache::new(SHARDS * 20_000);
    let request = |key| request(&cache, key, 1, 100, Admission::OnSecondRequest);
    let hits = [request(7), request(7), request(7), request(8)];
    assert_eq!(hits, [false, false, true, false]);
}

#[test]
fn routes_with_long_texts_and_omitted_content_are_not_cached() {
    let cache = ResponseCache::new(1 << 30);
    let long = Route::Creator("x".repeat(TEXT_BYTES_MAX + 1));
    let mut omitted = found(1, 1);
    omitted.content = Content::Omitted(Some(1));
    for (route, response) in [(&long, &found(1, 1)), (&Route::NewDays, &omitted)] {
        for _ in 0..2 {
            let context = ReadContext::with_content(1, false);
            let hash = cache.get(route, context).unwrap_err();
            cache.insert(hash, (route, response), context, Admission::Immediate);
        }
    }
    assert_eq!(cache.charged(), (0, 0));
}

#[test]
fn one_client_evicts_nothing_from_a_cache_that_others_fill() {
    let cache = ResponseCache::new(1_000 * ENTRY_BYTES);
    for client in [1, 2, 1, 2] {
        for key in 0..10_000 {
            request_1000(&cache, key, client);
            request_1000(&cache, key, 3 - client);
        }
    }
    let protected = || -> Vec<u64> {
        let shards = cache.shards.iter();
        let mut hashes: Vec<u64> = shards
            .flat_map(|shard| Vec::from(shard.lock().unwrap().protected.hashes.clone()))
            .collect();
        hashes.sort_unstable();
        hashes
    };
    let sweep = |keys: std::ops::Range<u32>| {
        for key in keys {
            request_1000(&cache, key, 3);
            request_1000(&cache, key, 3);
        }
    };
    // New entries that two clients have requested become protected first.
    sweep(10_000..20_000);
    let before = protected();
    assert!(before.len() > 700, "{}", before.len());
    sweep(20_000..60_000);
    assert_eq!(protected(), before);
}
