//! The README files: length, links, commands, and examples.

use crate::cli_files;
use crate::prelude::*;
use crate::support::printed_key;

const FILES: &str = "README.md benches/README.md data/README.md tests/README.md";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn lines(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.lines().scan(false, |is_code, line| {
        let is_fence = line.trim_start().starts_with("```");
        *is_code ^= is_fence;
        Some((*is_code && !is_fence, line))
    })
}

/// Commands in code blocks, without comments: lines of `sh` blocks, and those after `$ ` of `console` blocks.
fn commands(text: &str) -> Vec<&str> {
    let mut language = "";
    let mut commands = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("```") {
            language = name;
            continue;
        }
        let command = match language {
            "sh" => Some(line),
            "console" => line.strip_prefix("$ "),
            _ => None,
        };
        commands.extend(command.map(|line| line.split("  #").next().unwrap().trim_end()));
    }
    commands
}

/// Commands of the program in code blocks and in `code` in the text, without the program's name.
fn program_commands(text: &str) -> Vec<&str> {
    let blocks = commands(text);
    let blocks = blocks.iter().flat_map(|line| line.split(" | "));
    let spans = lines(text).filter(|(is_code, _)| !is_code);
    let spans = spans.flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    let arguments = blocks.chain(spans).filter_map(|line| {
        let (before, after) = line.split_once("island-metrics ")?;
        // Variables may precede it; `systemctl restart island-metrics` and the like are other commands.
        let is_program = before.split_whitespace().all(|word| word.contains('='));
        is_program.then_some(after)
    });
    arguments.collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

#[test]
fn the_first_readme_has_at_most_200_lines() {
    let count = read("README.md").lines().count();
    assert!(count <= 200, "{count} lines");
}

#[test]
fn links_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for file in words(FILES) {
        let text = read(file);
        let folder = root.join(file).parent().unwrap().to_owned();
        let outside_code = lines(&text).filter(|(is_code, _)| !is_code);
        for (_, line) in outside_code {
            for target in line.split("](").skip(1) {
                let target = target.split(')').next().unwrap();
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let to = if path.is_empty() {
                    root.join(file)
                } else {
                    folder.join(path)
                };
                assert!(to.exists(), "{file}: no file {target}");
                count += 1;
                if !heading.is_empty() {
                    let linked = fs::read_to_string(&to).unwrap();
                    let mut headings = lines(&linked)
                        .filter(|(is_code, line)| !is_code && line.starts_with('#'))
                        .map(|(_, line)| anchor(line));
                    assert!(
                        headings.any(|found| found == heading),
                        "{file}: no heading {target}"
                    );
                }
            }
        }
    }
    assert!(count > 30, "{count} links");
}

#[test]
fn paths_in_code_are_files_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for file in words(FILES) {
        let text = read(file);
        let words = text.split(|c: char| c.is_whitespace() || "`()<>".contains(c));
        let is_path = |word: &&str| {
            let top = ["src/", "tests/", "data/", "benches/", ".ci/"];
            top.iter().any(|top| word.starts_with(top)) && !word.contains(['*', '{', '$', ','])
        };
        for path in words.filter(is_path) {
            let path = path.trim_end_matches(['.', ':', ';']);
            let path = path.split('#').next().unwrap();
            count += 1;
            assert!(root.join(path).exists(), "{file}: no file {path}");
        }
    }
    assert!(count > 15, "{count} paths");
}

#[test]
fn commands_and_flags_are_those_of_the_program() {
    let table = cli_files::table();
    let benches = read("Cargo.toml");
    let mut count = 0;
    for file in words(FILES) {
        let text = read(file);
        for command in program_commands(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let is_flag = |word: &&str| word.starts_with('-');
            let name: Vec<&str> = words.iter().copied().take_while(|w| !is_flag(w)).collect();
            count += 1;
            if name.is_empty() {
                assert!(
                    matches!(words[..], ["--help" | "--version"]),
                    "{file}: {command}"
                );
                continue;
            }
            // The operand of `keys revoke ID` follows the name.
            let name = name.join(" ");
            let mut known = table.iter().filter(|known| {
                name == known.name || name.starts_with(&format!("{} ", known.name))
            });
            let known = known.next();
            let known = known.unwrap_or_else(|| panic!("{file}: no command {command}"));
            for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
                assert!(
                    known.flags.iter().any(|known| known.name == flag),
                    "{file}: {command}: no flag --{flag}"
                );
            }
        }
        for bench in text.split("cargo bench --bench ").skip(1) {
            let name: String = bench.chars().take_while(char::is_ascii_lowercase).collect();
            let entry = format!("[[bench]]\nname = \"{name}\"\n");
            assert!(
                name.is_empty() || benches.contains(&entry),
                "{file}: no bench {name}"
            );
        }
    }
    assert!(count > 25, "{count} commands");
}

/// Runs a command of a README with real arguments. Servers only check their settings.
fn attempt(command: &str, places: &BTreeMap<&str, String>) -> Output {
    let words = command.split_whitespace().skip_while(|w| w.contains('='));
    let words = words.skip(1).map(|word| {
        let place = places.get(word).cloned();
        place.unwrap_or_else(|| word.to_owned())
    });
    let mut words: Vec<String> = words.collect();
    if words[0] == "serve" {
        words.push("--print-config".to_owned());
    }
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn commands_of_the_first_readme_work_in_their_order() {
    let dir = TempDir::new();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let mut places = BTreeMap::from([
        ("DIR", path("dataset")),
        ("PUBLISHED", path("published")),
        ("STATE", path("state")),
        // A dataset of the same form, in less time.
        ("20000", "200".to_owned()),
        ("8000", "80".to_owned()),
        ("90", "3".to_owned()),
    ]);
    let text = read("README.md");
    let synth = text.split('`').find(|span| span.contains("metrics synth "));
    let mut all = vec![synth.unwrap()];
    all.extend(commands(&text));
    let mut ran = BTreeSet::new();
    for command in all {
        let name = command.strip_prefix("island-metrics ");
        let Some(name) = name.and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        // A request to the platform, unless it only prints the plan.
        if name == "collect" && (!cfg!(feature = "collect") || !command.contains("--plan")) {
            continue;
        }
        let output = attempt(command, &places);
        stderr_of(&output, 0);
        if command.contains("keys issue") {
            let key = printed_key(&output);
            places.insert("DDeDNaKcIF", id(&key).to_owned());
        }
        ran.insert(name.to_owned());
    }
    let expected = ["check", "keys", "publish", "serve", "synth"];
    ran.remove("collect");
    assert_eq!(ran.iter().collect::<Vec<_>>(), expected);
}

/// Rows of a table, as cells, below a header that starts with this cell.
fn rows<'a>(text: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let start = format!("| {header} |");
    let table = text.lines().skip_while(|line| !line.starts_with(&start));
    let table = table.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'a str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    table.map(cells).collect()
}

#[test]
fn tables_of_the_first_readme_have_the_endpoints_the_quotas_and_the_columns() {
    let text = read("README.md");
    let server = Server::start(&[]);
    let index = server.connect().get("/v1");
    let index: Value = serde_json::from_str(index.text()).unwrap();
    let endpoints = index["endpoints"].as_array().unwrap().iter();
    let endpoints: Vec<_> = endpoints
        .map(|it| it.as_str().unwrap().to_owned())
        .collect();
    let listed = rows(&text, "path");
    let listed: Vec<_> = listed
        .iter()
        .map(|row| format!("GET {}", row[0].trim_matches('`')))
        .collect();
    assert_eq!(listed, endpoints);
    for endpoint in [Endpoint::Islands, Endpoint::Creators] {
        let path = format!("`{}`", endpoint.label());
        let table = rows(&text, "path");
        let row = table.iter().find(|row| row[0] == path).unwrap();
        for name in endpoint.query_parameters().iter().map(|one| one.name) {
            assert!(row[1].contains(&format!("`{name}`")), "{path}: {name}");
        }
    }

    let table = cli_files::table();
    let quotas = rows(&text, "caller");
    assert_eq!(quotas.len(), 4);
    for row in quotas {
        let name = row[2].trim_matches('`').trim_start_matches("--");
        let mut flags = table[0].flags.iter();
        let flag = flags.find(|flag| flag.name == name).unwrap();
        assert_eq!(flag.default, Some(row[1].replace(',', "")), "{name}");
    }

    let dir = TempDir::new();
    let to = dir.join("dataset");
    let words = ["synth", "--islands", "20", "--creators", "5", "--days", "9"];
    let words = [&words[..], &["--to", to.to_str().unwrap()]].concat();
    assert!(run(&words).status.success());
    for row in rows(&text, "file") {
        let name = row[0].trim_matches('`');
        let file = match name.split_once('/') {
            None => to.join(name),
            Some((folder, _)) => {
                let mut files = fs::read_dir(to.join(folder)).unwrap();
                files.next().unwrap().unwrap().path()
            }
        };
        let columns = row[1].split('`').nth(1).unwrap();
        let header = fs::read_to_string(file).unwrap();
        assert_eq!(header.lines().next(), Some(columns), "{name}");
    }
}

#[test]
fn pages_of_the_table_are_pages_of_the_sample() {
    let text = read("data/README.md");
    let dir = TempDir::new();
    let state = dir.join("state");
    let server = Server::start(&["--signup", "ip", "--state", state.to_str().unwrap()]);
    let values = [
        ("{code}", "2708-3623-7025"),
        ("{slug}", "ruby.gg65"),
        ("{date}", "latest"),
    ];
    let listed = rows(&text, "page");
    let paths = listed.iter().flat_map(|row| row[0].split(", "));
    let mut count = 0;
    for path in paths {
        let path = path.trim_matches('`');
        let filled = values.iter().fold(path.to_owned(), |path, (name, value)| {
            path.replace(name, value)
        });
        let mut client = server.connect();
        let reply = client.request("GET", &filled, &[("Accept", "text/html")]);
        assert_eq!(reply.status, 200, "{path}");
        count += 1;
    }
    assert!(count > 10, "{count} pages");
}

#[test]
fn each_readme_says_which_names_in_commands_to_replace() {
    let notice = "In all commands, replace words in capitals, such as `DIR`, and names that end in `example` or \
                  `example.com`, with yours.";
    let mut hosts = 0;
    for path in ["README.md", "data/README.md"] {
        let text = read(path);
        let sentences: Vec<&str> = text.split_whitespace().collect();
        assert!(sentences.join(" ").contains(notice), "{path}");
        for url in commands(&text)
            .iter()
            .flat_map(|line| line.split("://").skip(1))
        {
            let host = url.split(['/', ':', ' ', '\'', '"']).next().unwrap();
            let is_address = host.parse::<std::net::Ipv4Addr>().is_ok();
            assert!(is_address || host.ends_with("example"), "{path}: {host}");
            hosts += usize::from(!is_address);
        }
    }
    assert!(hosts > 5, "{hosts} hosts");
}

#[test]
fn examples_are_responses_of_the_sample() {
    let text = read("README.md");
    let server = Server::start(&["--base-url", "http://127.0.0.1:8080"]);
    let mut client = server.connect();
    let shown: Vec<&str> = text.lines().collect();
    let mut count = 0;
    for pair in shown.windows(2) {
        let Some(url) = pair[0].strip_prefix("$ curl 'http://127.0.0.1:8080") else {
            continue;
        };
        let reply = client.get(url.trim_end_matches('\''));
        let command = "`python3 tests/rewrite.py` rewrites the responses";
        assert_eq!(reply.text(), pair[1], "{url}: {command}");
        count += 1;
    }
    assert_eq!(count, 2);
    // With its head, of which the values of some lines differ each time.
    let text = read("data/README.md");
    let (_, example) = text.split_once("$ curl -i 'http://127.0.0.1:8080").unwrap();
    let (target, shown) = example.split_once("'\nHTTP/1.1 ").unwrap();
    let (head, body) = shown.split_once("\n\n").unwrap();
    let reply = client.get(target);
    assert_eq!(Some(reply.text()), body.lines().next());
    let (status, lines) = head.split_once('\n').unwrap();
    assert_eq!(status.split(' ').next().unwrap(), reply.status.to_string());
    let varies = [
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-request-id",
        "date",
    ];
    let same = |(name, value): (&str, &str)| varies.contains(&name) || value == reply.expect(name);
    let mut lines = lines.lines().map(|line| line.split_once(": ").unwrap());
    assert!(lines.all(same), "{:?}", reply.headers);
    assert_eq!(head.lines().count(), 1 + reply.headers.len());
}

#[test]
fn the_printed_settings_are_those_of_the_example() {
    let text = read("data/README.md");
    let (_, example) = text.split_once("$ ISLAND_METRICS_LIMIT_FREE=5000").unwrap();
    let lines = example.lines().skip(1).take_while(|line| *line != "```");
    let lines: Vec<&str> = lines.collect();
    let mut command = command();
    command.env("ISLAND_METRICS_LIMIT_FREE", "5000");
    command.args(words("serve --listen 0.0.0.0:8080 --print-config"));
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    // The width of the columns depends on the features of the build, and the number of cores on the machine.
    let words = |line: &'_ str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let printed: Vec<_> = printed.lines().map(words).collect();
    let is_printed = |line: &str| line.starts_with("workers ") || printed.contains(&words(line));
    assert!(
        lines.len() > 2 && lines.into_iter().all(is_printed),
        "{printed:?}"
    );
}

/// Whether a file has each part of the name of a test, as a step of its path or as a function.
fn has_test((path, text): &(String, String), name: &str) -> bool {
    let functions = text.split("fn ").skip(1);
    let functions = functions.map(|function| function.split('(').next().unwrap());
    let names: Vec<&str> = path.split(['/', '.']).chain(functions).collect();
    name.split("::").all(|part| {
        let is_part = |name: &&str| match part.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name.strip_suffix("_tests").unwrap_or(name) == part.trim_end_matches("_tests"),
        };
        part == "tests" || names.iter().any(is_part)
    })
}

#[test]
fn tests_of_the_list_of_faults_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [unit, it] = ["src", "tests/it"].map(|folder| {
        let all = files(&root.join(folder)).into_iter();
        let texts = all.map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned()));
        texts.collect::<Vec<_>>()
    });
    let text = read("tests/FAULTS.md");
    let named = text.lines().filter_map(|line| line.split(" | ").nth(1));
    let (mut count, mut absent) = (0, Vec::new());
    for name in named.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        let (files, part) = match name.strip_prefix("lib ") {
            Some(part) => (&unit, part),
            None if name.contains("::") => (&it, name),
            None => continue,
        };
        if !files.iter().any(|file| has_test(file, part)) {
            absent.push(name);
        }
        count += 1;
    }
    assert!(absent.is_empty(), "no test {absent:#?}");
    assert!(count > 250, "{count} names");
}

#[test]
fn the_checks_see_what_is_wrong() {
    let text = "# A b: `c`\n```sh\nisland-metrics serve --x  # y\nls\n```\n`X=1 island-metrics check` `restart island-metrics`\n";
    assert_eq!(program_commands(text), ["serve --x", "check"]);
    assert_eq!(
        anchor("## `load`: the whole server, beside others"),
        "load-the-whole-server-beside-others"
    );
}
