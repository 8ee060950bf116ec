//! Routes by number, requested by clients by number.

use super::*;
use crate::calendar::UnixSeconds;
use crate::snapshot::{Encoded, EntityTag};

/// What a response of 1,000 bytes takes, with a route of six digits.
const ENTRY_BYTES: usize = 1_000 + 6 + BLOCKS * ALLOCATION_BYTES + ResponseCache::entry_bytes();

impl ResponseCache {
    /// Bytes charged, by the queues and by the entries.
    fn charged(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap());
        shards.fold((0, 0), |(queued, charged), shard| {
            let entries: usize = shard.entries.values().map(|entry| entry.bytes).sum();
            let queues = shard.new.bytes + shard.kept.bytes;
            (queued + queues, charged + entries)
        })
    }
}

fn route(key: u32) -> Route {
    Route::Creator(format!("{key:06}"))
}

/// A response that can be told from others.
fn found(key: u32, bytes: usize) -> Found {
    let mut content = vec![0; bytes];
    let key = key.to_le_bytes();
    let bytes = bytes.min(key.len());
    content[..bytes].copy_from_slice(&key[..bytes]);
    Found {
        body: Encoded {
            content: Content::Whole(content.into()),
            etag: EntityTag::new(UnixSeconds(0), 0, false),
            gzip: false,
        },
        links: None,
    }
}

/// Requests a key as a client does. Returns whether the cache had it.
fn request(cache: &ResponseCache, key: u32, client: u64, bytes: usize, keep: Keep) -> bool {
    let route = route(key);
    let wanted = found(key, bytes);
    let content = |found: Found| found.body.content.into_bytes().unwrap();
    match cache.get(&route, ReadContext::with_content(client, false)) {
        Ok(found) => {
            let (found, wanted) = (content(found), content(wanted));
            assert!(found.starts_with(&wanted[..found.len().min(wanted.len()).min(4)]));
            true
        }
        Err(vacancy) => {
            vacancy.fill(&wanted, keep);
            false
        }
    }
}

#[test]
fn it_never_holds_more_than_its_bytes() {
    arbtest::arbtest(|u| {
        let cache = ResponseCache::new(SHARDS * 10_000);
        for _ in 0..u.int_in_range(0..=2000)? {
            let key: u32 = u.int_in_range(0..=300)?;
            let client = u.int_in_range(0..=2)?;
            let keep = *u.choose(&[Keep::Always, Keep::OnSecondRequest])?;
            let bytes = u.int_in_range(0..=11_000)?;
            request(&cache, key, client, bytes, keep);
            let (queued, charged) = cache.charged();
            assert_eq!(queued, charged);
            assert!(charged <= SHARDS * 10_000);
            // Were there more, new entries would remove kept ones.
            for shard in &cache.shards {
                let shard = shard.lock().unwrap();
                assert!(shard.kept.bytes <= 10_000 - 10_000 / NEW_SHARE);
            }
        }
        Ok(())
    });
}

/// The same, of a response of 1,000 bytes that is kept immediately.
fn ask(cache: &ResponseCache, key: u32, client: u64) -> bool {
    request(cache, key, client, 1_000, Keep::Always)
}

/// How many times one of a thousand keys that two clients use is not there, while a third requests
/// other keys, each of them `times` times, `sweep` of them between two uses of the same.
fn lost(times: u32, sweep: u32) -> usize {
    const IN_USE: u32 = 1_000;
    // Room for twice as much as is in use: shards are not filled evenly.
    let cache = ResponseCache::new(2_000 * ENTRY_BYTES);
    for client in [1, 2] {
        for key in 0..IN_USE {
            ask(&cache, key, client);
        }
    }
    let mut others = IN_USE..;
    let mut lost = 0;
    for round in 0..20_000_u32 {
        for key in others.by_ref().take((sweep / IN_USE) as usize) {
            for _ in 0..times {
                ask(&cache, key, 3);
            }
        }
        let client = 1 + u64::from(round / IN_USE % 2);
        lost += usize::from(!ask(&cache, round % IN_USE, client));
    }
    lost
}

#[test]
fn one_client_removes_nothing_that_others_use() {
    for times in [1, 2, 10] {
        for sweep in [1_000, 10_000] {
            assert_eq!(lost(times, sweep), 0, "{times} times, {sweep} between");
        }
    }
}

#[test]
fn it_takes_little_before_it_holds_anything() {
    for bytes_max in [0, 1, 1 << 40, usize::MAX] {
        let cache = ResponseCache::new(bytes_max);
        assert!((1..=KEYS_MAX).contains(&cache.recent.len()));
    }
}

#[test]
fn a_cheap_response_is_kept_on_its_second_request() {
    let cache = ResponseCache::new(SHARDS * 20_000);
    let request = |key| request(&cache, key, 1, 100, Keep::OnSecondRequest);
    let hits = [request(7), request(7), request(7), request(8)];
    assert_eq!(hits, [false, false, true, false]);
}

#[test]
fn routes_with_long_texts_and_content_that_is_not_there_are_not_kept() {
    let cache = ResponseCache::new(1 << 30);
    let long = Route::Creator("x".repeat(TEXT_BYTES_MAX + 1));
    let mut omitted = found(1, 1);
    omitted.body.content = Content::Omitted(Some(1));
    for (route, response) in [(&long, &found(1, 1)), (&Route::NewDays, &omitted)] {
        for _ in 0..2 {
            let vacancy = cache.get(route, ReadContext::with_content(1, false));
            vacancy.unwrap_err().fill(response, Keep::Always);
        }
    }
    assert_eq!(cache.charged(), (0, 0));
}

#[test]
fn one_client_removes_nothing_from_a_cache_that_others_fill() {
    let cache = ResponseCache::new(1_000 * ENTRY_BYTES);
    for client in [1, 2, 1, 2] {
        for key in 0..10_000 {
            ask(&cache, key, client);
            ask(&cache, key, 3 - client);
        }
    }
    let kept = || -> Vec<KeyHash> {
        let shards = cache.shards.iter();
        let mut kept: Vec<KeyHash> = shards
            .flat_map(|shard| Vec::from(shard.lock().unwrap().kept.keys.clone()))
            .collect();
        kept.sort_unstable_by_key(|hash| hash.0);
        kept
    };
    let sweep = |keys: std::ops::Range<u32>| {
        for key in keys {
            ask(&cache, key, 3);
            ask(&cache, key, 3);
        }
    };
    // New entries that two clients have requested move to the kept ones first.
    sweep(10_000..20_000);
    let before = kept();
    assert!(before.len() > 700, "{}", before.len());
    sweep(20_000..60_000);
    assert_eq!(kept(), before);
}
