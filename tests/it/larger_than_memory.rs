//! A history several times as large as the server's memory limit, all of it requested.

use crate::memory_group::MemoryGroup;
use crate::prelude::*;

const MIB: u64 = 1 << 20;
/// The value of `--memory`.
const MEMORY_MIB: u64 = 16;
/// Memory of the server beside its sections and caches (data, stacks, buffers of a connection,
/// fragmentation), and of the system to read files.
const SLACK_MIB: u64 = 8;
const ISLANDS: u64 = 1000;
const CREATORS: u64 = 300;
/// With so many days, an island is over 64 KiB also with gzip: too long for the workers' caches.
const MONTHS: u64 = 33;

fn code(island: u64) -> String {
    let number = 1000_0000_0000 + island * 7_919_317;
    let text = number.to_string();
    format!("{}-{}-{}", &text[..4], &text[4..8], &text[8..])
}

/// Writes random numbers, which hardly compress.
fn write_dataset(directory: &Path) {
    let mut rng = Rng(1);
    let mut text = "code,title,creator,createdIn,tags\n".to_owned();
    for island in 0..ISLANDS {
        let creator = island % CREATORS;
        writeln!(text, "{},Island {island},c{creator},uefn,a|b", code(island)).unwrap();
    }
    write_file(&directory.join("islands.csv"), &text);
    let codes: Vec<String> = (0..ISLANDS).map(code).collect();
    let days = (0..MONTHS * 28).map(|day| (day / 28, day % 28 + 1));
    for (month, day) in days {
        let mut text = DAILY.to_owned();
        for code in &codes {
            text.push_str(code);
            for _ in 0..6 {
                write!(text, ",{}", rng.below(1 << 53)).unwrap();
            }
            let [a, b, c] = [(); 3].map(|()| rng.below(1_000_000));
            writeln!(text, ",{a}.{b:06},0.{b:06},0.{c:06}").unwrap();
        }
        let (year, month) = (2023 + month / 12, month % 12 + 1);
        let file = format!("daily/{year}-{month:02}-{day:02}.csv");
        write_file(&directory.join(file), &text);
    }
}

/// Bytes of bodies in a payload file, and of its sections in memory, by its trailer.
fn sizes(history: &Path) -> (u64, u64) {
    let file = fs::read(history).unwrap();
    let trailer = &file[file.len() - 32..];
    let bodies = u64::from_le_bytes(trailer[..8].try_into().unwrap());
    (bodies, file.len() as u64 - bodies)
}

/// All targets with a body of their own, with gzip and without, in random order.
fn targets(rng: &mut Rng) -> Vec<(String, bool)> {
    let islands = (0..ISLANDS).map(|island| format!("/v1/islands/{}", code(island)));
    let ccu = islands.clone().map(|island| format!("{island}/ccu"));
    let creators = (0..CREATORS).map(|creator| format!("/v1/creators/c{creator}"));
    let all = islands.chain(ccu).chain(creators);
    let mut targets: Vec<_> = all
        .flat_map(|target| [(target.clone(), false), (target, true)])
        .collect();
    rng.shuffle(&mut targets);
    targets
}

/// Starts a server in the group on a copy of the published directory. A process of the group makes
/// the copy, so that its page cache is charged to the group.
fn start_limited(group: &MemoryGroup, published: &Path, copy: &Path) -> Server {
    let mut copying = Command::new("cp");
    copying.arg("-r").args([published, copy]);
    assert!(group.around(&copying).status().unwrap().success());
    let memory = format!("{MEMORY_MIB}MiB");
    let mut args = vec!["--published", copy.to_str().unwrap(), "--memory", &memory];
    // Counters for so few clients take almost no memory.
    args.extend(["--quota-clients", "1000", "--limit-anonymous", "65535"]);
    args.extend(["--workers", "1"]);
    Server::start_as(group.around(&command()), &args)
}

/// Measurements of a round of requests.
#[derive(Debug, Default)]
struct Seen {
    anonymous_kib_max: u64,
    sent_bytes: u64,
}

/// Requests everything from both servers once, and compares the responses.
fn walk(server: &Server, unlimited: &Server, rng: &mut Rng, seen: &mut Seen) {
    let (mut client, mut oracle) = (server.connect(), unlimited.connect());
    for (at, (target, gzip)) in targets(rng).iter().enumerate() {
        let reply = client.get_coded(target, *gzip);
        let wanted = oracle.get_coded(target, *gzip);
        assert_eq!((reply.status, wanted.status), (200, 200), "{target}");
        assert!(reply.body == wanted.body, "{target} is another");
        assert_eq!(reply.expect("etag"), wanted.expect("etag"), "{target}");
        seen.sent_bytes += reply.body.len() as u64;
        if at % 64 == 0 {
            seen.anonymous_kib_max = seen.anonymous_kib_max.max(server.anonymous_kib());
        }
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "a test that cannot be made should say why"
)]
fn a_history_of_several_times_the_memory_is_served_whole() {
    if !is_slow() {
        return;
    }
    let group = match MemoryGroup::new() {
        Ok(group) => group,
        Err(missing) => {
            eprintln!("not tested, needs root and a memory cgroup: {missing}");
            return;
        }
    };
    let dir = TempDir::on_disk();
    let (dataset, published) = (dir.join("dataset"), dir.join("published"));
    write_dataset(&dataset);
    publish(&dataset, &published, GENERATED_AT);
    let (body_bytes, resident_bytes) = sizes(&history_file(&published));
    assert!(body_bytes > 5 * MEMORY_MIB * MIB, "{body_bytes} are few");
    // Sections are rounded up to huge pages.
    let held_mib = resident_bytes.div_ceil(2 * MIB) * 2 + MEMORY_MIB;
    group.limit_to((held_mib + SLACK_MIB) * MIB);
    let server = start_limited(&group, &published, &dir.join("limited"));
    let unlimited = Server::of(&published, &[]);
    let (mut rng, mut seen) = (Rng(2), Seen::default());
    walk(&server, &unlimited, &mut rng, &mut seen);
    walk(&server, &unlimited, &mut rng, &mut seen);
    let read_bytes = server.bytes_read_from_disk();
    let figures = format!(
        "bodies {body_bytes}, held {held_mib} MiB and {SLACK_MIB} MiB more; {seen:?}, \
        {read_bytes} read from the disk, {} of files in memory",
        group.cached_bytes()
    );
    eprintln!("{figures}");
    assert_eq!(
        group.kills(),
        0,
        "killed by the system for lack of memory: {figures}"
    );
    let anonymous_mib_max = seen.anonymous_kib_max / 1024;
    assert!(
        anonymous_mib_max < held_mib + SLACK_MIB * 3 / 4,
        "{figures}"
    );
    // Page cache was evicted: the second round had to read the file again.
    assert!(read_bytes > body_bytes * 3 / 2, "{figures}");
    assert!(server.terminate().success(), "{figures}");
}
