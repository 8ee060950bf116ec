//! Counter files: counts that outlive a process, and files that are set aside.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed step ends the test; its files need not survive a crash"
)]

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use zlib_rs::crc32::crc32;

use super::{AnonymousClient, AnonymousQuota, Decision, KeyedQuota, NewestDay, TableSize};
use crate::calendar::UtcDay;

pub(super) const TODAY: UtcDay = UtcDay(20_777);

/// A directory that is removed when dropped.
pub(super) struct State(pub(super) PathBuf);

impl State {
    pub(super) fn new(name: &str) -> State {
        let path = std::env::temp_dir().join(format!("im-state-{}-{name}", std::process::id()));
        State(path)
    }

    /// Opens the table, and returns the lines logged on the way.
    fn open_sized(&self, sizes: TableSize) -> (AnonymousQuota, String) {
        let logged = RefCell::new(String::new());
        let log = |line: &str| logged.borrow_mut().push_str(line);
        let quota = open(&self.0, sizes, &log).unwrap();
        (quota, logged.into_inner())
    }

    fn open(&self) -> (AnonymousQuota, String) {
        self.open_sized(TableSize::for_clients(100))
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

/// Opens the table without interest in the newest day.
fn open(directory: &Path, sizes: TableSize, log: &dyn Fn(&str)) -> std::io::Result<AnonymousQuota> {
    AnonymousQuota::open(directory, sizes, &mut NewestDay::default(), log)
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

/// A state directory in which each of these days has the counts of one address and one key.
fn used_on(name: &str, days: &[i32]) -> State {
    let state = State::new(name);
    let (anonymous, _) = state.open();
    let keyed = KeyedQuota::open(&state.0, &mut NewestDay::default(), &|_| {}).unwrap();
    keyed.places(0..9, &|_| {}).1.unwrap();
    // A counter that another one of an earlier day would take over has another place.
    let mut homes = HashSet::new();
    let mut clients = (0..)
        .map(|bits| AnonymousClient::new(&anonymous, Ipv4Addr::from_bits(bits).into()))
        .filter(|client| homes.insert(client.home));
    for (number, day) in (0..).zip(days) {
        let day = UtcDay(TODAY.0 + day);
        let admitted = match number % 2 {
            0 => anonymous.admit(clients.next().unwrap(), 10, day),
            _ => keyed.admit(number, 10, day).unwrap(),
        };
        assert_eq!(admitted, Decision::Admit { remaining: 9 });
    }
    state
}

/// Opens both tables as a server does whose clock shows `TODAY`. Returns the days after `TODAY` that it
/// starts on, and the days of the counters that are left.
fn start(state: &State) -> (i32, Vec<i32>) {
    let mut newest = NewestDay::default();
    let sizes = TableSize::for_clients(100);
    let anonymous = AnonymousQuota::open(&state.0, sizes, &mut newest, &|_| {}).unwrap();
    let keyed = KeyedQuota::open(&state.0, &mut newest, &|_| {}).unwrap();
    let today = newest.day().max(Some(TODAY)).unwrap();
    let cleared = anonymous.clear_after(today) + keyed.clear_after(today);
    let left: Vec<i32> = (-5000..=25_000)
        .filter(|day| {
            let day = UtcDay(TODAY.0 + day);
            let all = anonymous.counts(day, 0..anonymous.slots()).len();
            all > 0 || (0..9).any(|number| keyed.count(day, number) > 0)
        })
        .collect();
    let mut again = NewestDay::default();
    AnonymousQuota::open(&state.0, sizes, &mut again, &|_| {}).unwrap();
    KeyedQuota::open(&state.0, &mut again, &|_| {}).unwrap();
    assert_eq!(
        cleared > 0,
        newest != again,
        "what was cleared is gone from the files"
    );
    (today.0 - TODAY.0, left)
}

#[test]
fn a_server_starts_on_the_newest_day_of_its_counters_and_on_no_damaged_one() {
    for (name, days, first, left) in [
        ("none", &[][..], 0, &[][..]),
        ("earlier", &[-400, -2, -1], 0, &[-400, -2, -1]),
        // The clock of the machine is behind.
        ("single", &[900], 900, &[900]),
        ("behind", &[899, 900, 900], 900, &[899, 900]),
        ("years", &[10_000, 10_001, 3], 10_000, &[3, 10_000, 10_001]),
        // Days after tomorrow, of a single counter of an address or a key.
        ("tomorrow", &[0, 1], 0, &[0, 1]),
        ("address", &[2, 0, 0], 0, &[0]),
        ("key", &[0, 16_384, -1], 0, &[-1, 0]),
        ("both", &[902, 900, 900], 900, &[900]),
    ] {
        let state = used_on(name, days);
        assert_eq!(start(&state), (first, left.to_vec()), "{name}");
        assert_eq!(start(&state), (first, left.to_vec()), "{name}, again");
    }
}

#[test]
fn damaged_words_of_the_overflow_are_cleared() {
    let state = State::new("overflow");
    drop(state.open());
    let file = File::options().write(true).open(state.file()).unwrap();
    let word = |tag: u64| tag << 31 | u64::from(TODAY.0.unsigned_abs() - 18_262) << 16 | 0xa;
    // The last word of the file, in which clients would be counted today.
    let at = file.metadata().unwrap().len() - 8;
    for (tag, left) in [(0, 1), (7, 0)] {
        file.write_all_at(&word(tag).to_le_bytes(), at).unwrap();
        assert_eq!(state.open().0.in_use(TODAY), (0, left));
    }
}

#[test]
fn a_word_is_in_use_by_its_count_and_in_its_place() {
    let state = State::new("words");
    let slots = state.open().0.slots() as u64;
    let file = File::options().write(true).open(state.file()).unwrap();
    let words = file.metadata().unwrap().len() - (slots + slots / 8) * 8;
    let word = |day: i32, count: u64| {
        7 << 31 | u64::from((TODAY.0 + day).unsigned_abs() - 18_262) << 16 | count
    };
    for (at, day, count, newest, used) in [
        (0, 1, 0, None, 0),
        (slots, 0, 10, None, 0),
        (slots - 1, 0, 10, Some(TODAY), 1),
    ] {
        let bytes = word(day, count).to_le_bytes();
        file.write_all_at(&bytes, words + 8 * at).unwrap();
        let mut found = NewestDay::default();
        let sizes = TableSize::for_clients(100);
        let quota = AnonymousQuota::open(&state.0, sizes, &mut found, &|_| {}).unwrap();
        assert_eq!(
            (found.day(), quota.in_use(TODAY)),
            (newest, (used, 0)),
            "{at}"
        );
        assert_eq!(quota.in_use(UtcDay(TODAY.0 + 1)), (0, 0), "{at}");
    }
}

#[test]
fn a_table_of_the_layout_before_is_set_aside_and_counters_of_keys_stay() {
    let state = used_on("layout", &[0, 0]);
    let mut bytes = fs::read(state.file()).unwrap();
    bytes[12] = 1;
    let checksum = crc32(0, &bytes[..64]).to_le_bytes();
    bytes[64..68].copy_from_slice(&checksum);
    fs::write(state.file(), &bytes).unwrap();
    let (quota, logged) = state.open();
    assert!(logged.contains("was created for another size or by another build; it was renamed"));
    assert_eq!(quota.in_use(TODAY), (0, 0));
    let keyed = KeyedQuota::open(&state.0, &mut NewestDay::default(), &|_| {}).unwrap();
    assert_eq!(keyed.peek(1, 10, TODAY), Some(9));
}

#[test]
fn a_directory_keeps_its_id_and_its_tag_seed_until_it_adopts_another() {
    let state = State::new("seed");
    let (quota, _) = state.open();
    let (id, seed) = (quota.directory_id(), quota.tag_seed());
    spend(&quota, TODAY);
    quota.adopt_tag_seed(seed).unwrap();
    assert_eq!(left(&quota), [7; 3]);
    quota.adopt_tag_seed(!seed).unwrap();
    assert_eq!(left(&quota), [7; 3]);
    drop(quota);
    let (quota, logged) = state.open();
    let expected = ("", [7, 7, 10]);
    assert_eq!(
        (logged.as_str(), left(&quota)),
        expected,
        "networks begin anew"
    );
    assert_eq!((quota.directory_id(), quota.tag_seed()), (id, !seed));
    drop(quota);
    fs::write(state.file(), "damaged").unwrap();
    let (other, _) = state.open();
    assert_ne!((other.directory_id(), other.tag_seed()), (id, !seed));
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
    let other = "is damaged, or was created for another size or by another build";
    check_set_aside("half", other, |bytes| bytes.truncate(800));
    check_set_aside("longer", other, |bytes| bytes.push(0));
    check_set_aside("foreign", other, |bytes| bytes[..8].fill(b'x'));
    check_set_aside("zeros", other, |bytes| bytes.fill(0));
    for bit in 64..68 * 8 {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        check_set_aside(&format!("bit{bit}"), other, flip);
    }
}

#[test]
fn a_file_of_other_sizes_is_set_aside_once_and_not_while_it_is_in_use() {
    let state = State::new("sizes");
    let (quota, _) = state.open();
    spend(&quota, TODAY);
    let larger = TableSize::for_clients(5000);
    let error = open(&state.0, larger, &|_| {}).unwrap_err();
    let problem = error.to_string();
    assert!(problem.ends_with("another server is using it"), "{problem}");
    assert_eq!(left(&state.open().0), [7; 3], "nothing was touched");
    drop(quota);
    let (quota, logged) = state.open_sized(larger);
    assert!(logged.contains("was created for another size"), "{logged}");
    assert_eq!(left(&quota), [10; 3]);
    let (_, logged) = state.open_sized(larger);
    assert_eq!(logged, "");
}

#[test]
fn an_open_error_names_the_file() {
    let state = State::new("named");
    fs::create_dir_all(state.file()).unwrap();
    let sizes = TableSize::for_clients(100);
    let error = open(&state.0, sizes, &|_| {}).unwrap_err();
    let file = state.file().display().to_string();
    assert!(error.to_string().starts_with(&file), "{error}");
    let looped = State::new("looped");
    fs::create_dir_all(&looped.0).unwrap();
    std::os::unix::fs::symlink(looped.file(), looped.file()).unwrap();
    assert!(open(&looped.0, sizes, &|_| {}).is_err());
    assert!(looped.file().is_symlink(), "nothing was replaced");
    let nowhere = state.file().join("x").join("\0");
    assert!(open(&nowhere, sizes, &|_| {}).is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_not_set_aside() {
    let state = State::new("unreadable");
    fs::create_dir_all(&state.0).unwrap();
    // Its first page is not mapped: reading it is an I/O error, as of a disk that fails.
    std::os::unix::fs::symlink("/proc/self/mem", state.file()).unwrap();
    let error = open(&state.0, TableSize::for_clients(100), &|line| {
        panic!("{line}")
    })
    .unwrap_err();
    assert!(error.to_string().contains("quota-anonymous"), "{error}");
    assert!(state.file().is_symlink());
}
