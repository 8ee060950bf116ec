//! Counter files: counts that outlive a process, and files that are set aside.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed step ends the test; its files need not survive a crash"
)]

use std::cell::RefCell;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use super::{AnonymousClient, AnonymousQuota, DayFile, Decision, KeyedQuota, TableSize};
use crate::calendar::UtcDay;
use crate::durable;

const TODAY: UtcDay = UtcDay(20_777);

/// A directory that is removed when dropped.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> State {
        let path = std::env::temp_dir().join(format!("im-state-{}-{name}", std::process::id()));
        State(path)
    }

    /// Opens the table, and returns the lines logged on the way.
    fn open_on(&self, day: UtcDay, sizes: TableSize) -> (AnonymousQuota, String) {
        let logged = RefCell::new(String::new());
        let log = |line: &str| logged.borrow_mut().push_str(line);
        let quota = AnonymousQuota::open(&self.0, sizes, day, &log).unwrap();
        (quota, logged.into_inner())
    }

    fn open(&self) -> (AnonymousQuota, String) {
        self.open_on(TODAY, TableSize::for_clients(100))
    }

    fn file(&self) -> PathBuf {
        self.0.join("quota-anonymous")
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

const ADDRESSES: [&str; 3] = ["192.0.2.1", "198.51.100.9", "2001:db8:7:8::9"];

/// Remaining requests of each address, of ten.
fn left(quota: &AnonymousQuota) -> [u32; 3] {
    ADDRESSES.map(|text| {
        let address: IpAddr = text.parse().unwrap();
        quota.peek(AnonymousClient::new(quota, address), 10, TODAY)
    })
}

fn spend(quota: &AnonymousQuota, day: UtcDay) {
    for text in ADDRESSES {
        let client = AnonymousClient::new(quota, text.parse().unwrap());
        for _ in 0..3 {
            assert_ne!(quota.admit(client, 10, day), Decision::Refuse);
        }
    }
}

#[test]
fn counts_outlive_the_table_that_made_them() {
    let state = State::new("outlive");
    let (quota, logged) = state.open();
    assert_eq!(logged, "");
    spend(&quota, TODAY);
    drop(quota);
    let (quota, logged) = state.open();
    assert_eq!((logged.as_str(), left(&quota)), ("", [7; 3]));
    assert!(!state.0.join("quota-anonymous.set-aside").exists());
}

#[test]
fn two_servers_on_one_directory_count_together() {
    let state = State::new("together");
    let ((one, _), (other, _)) = (state.open(), state.open());
    spend(&one, TODAY);
    assert_eq!(left(&other), [7; 3]);
    spend(&other, TODAY);
    assert_eq!(left(&one), [4; 3]);
}

#[test]
fn words_of_implausible_days_are_cleared() {
    for (day, kept) in [
        (-400, false),
        (-2, false),
        (-1, true),
        (1, true),
        (2, false),
        (1500, false),
    ] {
        let state = State::new(&format!("days{day}"));
        let (quota, _) = state.open();
        spend(&quota, UtcDay(TODAY.0 + day));
        drop(quota);
        let (quota, logged) = state.open();
        assert_eq!(logged, "");
        // A count of tomorrow applies, since the clock may have been set back a little; a count of
        // yesterday does not. Both words are still in the file.
        assert_eq!(
            left(&quota),
            if day == 1 { [7; 3] } else { [10; 3] },
            "{day}"
        );
        let bytes = fs::read(state.file()).unwrap();
        let used = bytes[4096..].iter().any(|byte| *byte != 0);
        assert_eq!(used, kept, "{day}");
    }
}

/// Damages the file by `change`; the file is set aside for this reason, and the counts are zero.
#[track_caller]
fn check_set_aside(name: &str, reason: &str, change: impl Fn(&mut Vec<u8>)) {
    let state = State::new(name);
    let (quota, _) = state.open();
    spend(&quota, TODAY);
    drop(quota);
    let mut bytes = fs::read(state.file()).unwrap();
    change(&mut bytes);
    fs::write(state.file(), &bytes).unwrap();
    let (quota, logged) = state.open();
    assert_eq!(left(&quota), [10; 3], "{name}");
    let path = state.file();
    assert!(
        logged.starts_with(&format!("{} {reason}; it was renamed to ", path.display())),
        "{logged}"
    );
    let aside = fs::read(state.0.join("quota-anonymous.set-aside")).unwrap();
    assert!(aside == bytes, "{name}: nothing is lost");
}

#[test]
fn damaged_and_foreign_files_are_set_aside() {
    check_set_aside("empty", "is too short", Vec::clear);
    check_set_aside("cut", "is too short", |bytes| bytes.truncate(67));
    check_set_aside("half", "has 800 bytes, expected 6400", |bytes| {
        bytes.truncate(800);
    });
    check_set_aside("longer", "has 6401 bytes, expected 6400", |bytes| {
        bytes.push(0);
    });
    check_set_aside("foreign", "is not a counter file", |bytes| {
        bytes[..8].fill(b'x');
    });
    check_set_aside("zeros", "is not a counter file", |bytes| bytes.fill(0));
    for bit in 64..68 * 8 {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        check_set_aside(&format!("bit{bit}"), "is damaged", flip);
    }
}

#[test]
fn a_file_of_other_sizes_is_set_aside_once_and_not_while_it_is_in_use() {
    let state = State::new("sizes");
    let (quota, _) = state.open();
    spend(&quota, TODAY);
    let larger = TableSize::for_clients(5000);
    let error = AnonymousQuota::open(&state.0, larger, TODAY, &|_| {}).unwrap_err();
    let problem = error.to_string();
    assert!(problem.ends_with("another server is using it"), "{problem}");
    assert_eq!(left(&state.open().0), [7; 3], "nothing was touched");
    drop(quota);
    let (quota, logged) = state.open_on(TODAY, larger);
    assert!(logged.contains("was created for another size"), "{logged}");
    assert_eq!(left(&quota), [10; 3]);
    let (_, logged) = state.open_on(TODAY, larger);
    assert_eq!(logged, "");
}

#[test]
fn an_open_error_names_the_file() {
    let state = State::new("named");
    fs::create_dir_all(state.file()).unwrap();
    let sizes = TableSize::for_clients(100);
    let error = AnonymousQuota::open(&state.0, sizes, TODAY, &|_| {}).unwrap_err();
    let file = state.file().display().to_string();
    assert!(error.to_string().starts_with(&file), "{error}");
    let nowhere = state.file().join("x").join("\0");
    assert!(AnonymousQuota::open(&nowhere, sizes, TODAY, &|_| {}).is_err());
}

#[test]
fn counts_of_keys_outlive_the_table_and_damage_is_set_aside_by_segment() {
    let state = State::new("keys");
    let open = || {
        let logged = RefCell::new(String::new());
        let quota = KeyedQuota::new(Some(state.0.clone()));
        quota
            .reserve(65_537, TODAY, &|line| logged.borrow_mut().push_str(line))
            .unwrap();
        (quota, logged.into_inner())
    };
    let (quota, _) = open();
    for number in [0, 65_535, 65_536] {
        assert_eq!(
            quota.admit(number, 5, TODAY),
            Decision::Admit { remaining: 4 }
        );
    }
    drop(quota);
    let (quota, logged) = open();
    assert_eq!((logged.as_str(), quota.peek(65_535, 5, TODAY)), ("", 4));
    drop(quota);
    fs::write(state.0.join("quota-keys-1"), "nonsense").unwrap();
    let (quota, logged) = open();
    assert!(logged.contains("quota-keys-1 is too short"), "{logged}");
    assert_eq!(
        [0, 65_535, 65_536].map(|key| quota.peek(key, 5, TODAY)),
        [4, 4, 5]
    );
}

#[test]
fn the_newest_day_is_kept_and_no_other() {
    let state = State::new("day");
    fs::create_dir_all(&state.0).unwrap();
    let open = || {
        let logged = RefCell::new(String::new());
        let day = DayFile::open(&state.0, &|line| logged.borrow_mut().push_str(line)).unwrap();
        (day, logged.into_inner())
    };
    let (mut day, logged) = open();
    assert_eq!((day.day, logged.as_str()), (None, ""));
    for (kept, newest) in [(0, 0), (-3, 0), (1, 1), (1, 1)] {
        day.record(UtcDay(TODAY.0 + kept)).unwrap();
        assert_eq!(open().0.day, Some(UtcDay(TODAY.0 + newest)));
    }
    // While another process holds the lock, no day is stored; afterwards it is.
    let lock = durable::lock(&state.0, None).unwrap();
    let next = UtcDay(TODAY.0 + 2);
    let busy = day.record(next).unwrap_err().to_string();
    assert!(busy.contains("another process holds the lock"), "{busy}");
    drop(lock);
    day.record(next).unwrap();
    assert_eq!(open().0.day, Some(next));
    fs::write(state.0.join("quota-day"), "2026-13-01\n").unwrap();
    let (day, logged) = open();
    assert_eq!(day.day, None);
    assert!(
        logged.ends_with("quota-day does not contain a date; using the system clock only"),
        "{logged}"
    );
}
