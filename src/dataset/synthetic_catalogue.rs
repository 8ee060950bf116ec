//! islands.csv and creators.csv of a synthetic dataset. Titles, tags, slugs and names are drawn from the word
//! lists of `data/synthetic/words.txt`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::LazyLock;

use super::distributions::{SplitMix64, SyntheticSpec, at, count, curve, float};
use super::rows::{Cell, FileKind, write_csv_header, write_csv_row};
use crate::model::IslandCode;

/// Word lists by name.
static LISTS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut name = "";
    let lines = include_str!("../../data/synthetic/words.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[') {
            Some(header) => name = header.trim_end_matches(']'),
            None => lists.entry(name).or_default().extend(line.split('|')),
        }
    }
    lists
});

/// Maximum length of a title in characters.
const TITLE_CHARS_MAX: usize = 40;

/// Maximum length of a slug in bytes.
const SLUG_BYTES_MAX: usize = 16;

/// Draws a word of a list.
fn pick(random: &mut SplitMix64, list: &str) -> &'static str {
    let list = &LISTS[list];
    list[random.below(list.len())]
}

/// Draws a title of at most 40 characters, without leading or trailing spaces.
fn title(random: &mut SplitMix64) -> String {
    let mut title = match random.unit() {
        kind if kind < 0.018 => pick(random, "common").to_owned(),
        kind if kind < 0.046 => format!("{} {}", pick(random, "foreign"), pick(random, "tail")),
        kind if kind < 0.07 => {
            let inner = format!("{} {}", pick(random, "lead"), pick(random, "kind"));
            pick(random, "odd").replace("{}", &inner)
        }
        _ => plain(random),
    };
    if random.unit() < 0.4 {
        title = title.to_uppercase();
    }
    let emoji = match random.unit() {
        chance if chance < 0.004 => pick(random, "joined_emoji"),
        chance if chance < 0.337 => pick(random, "emoji"),
        _ => "",
    };
    if !emoji.is_empty() {
        let framed = match random.below(3) {
            0 => format!("{emoji} {title}"),
            1 => format!("{title} {emoji}"),
            _ => format!("{emoji}{title}{emoji}"),
        };
        // Truncation would split a joined emoji, so a title that becomes too long gets none.
        if framed.chars().count() <= TITLE_CHARS_MAX {
            title = framed;
        }
    }
    title
}

/// Draws a title of one to four English words, at most 40 characters.
fn plain(random: &mut SplitMix64) -> String {
    let [lead, theme, kind, tail] =
        ["lead", "theme", "kind", "tail"].map(|list| pick(random, list));
    let long = format!("{lead} {theme} {kind} {tail}");
    match random.unit() {
        shape if shape < 0.05 => format!("{lead} {kind}"),
        shape if shape < 0.13 => format!("{theme} {kind} {tail}"),
        shape if shape < 0.24 => format!("{lead} {kind} {tail}"),
        shape if shape < 0.55 || long.len() > TITLE_CHARS_MAX => format!("{lead} {theme} {kind}"),
        _ => long,
    }
}

/// Draws a slug of 3 to 16 bytes of `[a-z0-9._-]`. `number` makes it unique.
fn slug(random: &mut SplitMix64, number: usize) -> String {
    let mut slug = pick(random, "name").to_owned();
    match random.below(6) {
        0 => slug.push_str(pick(random, "role")),
        1 => slug = format!("{slug}.{}", pick(random, "role")),
        2 => slug = format!("{slug}_{}", pick(random, "name")),
        3 => slug = format!("{slug}-{}", pick(random, "name")),
        _ => {}
    }
    // The words have no digits, so the number alone makes slugs unique.
    let digits = number.to_string();
    slug.truncate(SLUG_BYTES_MAX - digits.len());
    slug + &digits
}

/// Draws a display name: words of slugs, or any words.
fn name(random: &mut SplitMix64) -> String {
    match random.below(12) {
        0 => format!("{}, {}", pick(random, "name"), pick(random, "role")),
        1 => format!("{} {}", pick(random, "emoji"), pick(random, "name")),
        2 => pick(random, "foreign").to_owned(),
        _ => format!("{} {}", pick(random, "lead"), pick(random, "name")),
    }
}

/// Draws one to four distinct tags, joined by `|`.
fn tags(random: &mut SplitMix64) -> String {
    // Shares measured over 30,104 islands: 7.6, 4.0, 7.9 and 80.5 per cent.
    let wanted = match random.unit() {
        share if share < 0.076 => 1,
        share if share < 0.116 => 2,
        share if share < 0.195 => 3,
        _ => 4,
    };
    let mut chosen: Vec<&str> = Vec::with_capacity(wanted);
    while chosen.len() < wanted {
        let tag = tag(random);
        if !chosen.contains(&tag) {
            chosen.push(tag);
        }
    }
    chosen.join("|")
}

/// Draws a tag by popularity: the top four as measured, the others decreasing with their position.
fn tag(random: &mut SplitMix64) -> &'static str {
    let tags = &LISTS["tags"];
    match random.unit() {
        share if share < 0.110 => tags[0],
        share if share < 0.187 => tags[1],
        share if share < 0.260 => tags[2],
        share if share < 0.315 => tags[3],
        _ => {
            // The minimum of two draws prefers low numbers. The stride, coprime to 148, permutes the
            // alphabet so that the popular tags do not all begin with a digit.
            let at = random.below(148).min(random.below(148));
            tags[4 + at * 45 % 148]
        }
    }
}

/// Writes `islands.csv` and `creators.csv`. Returns the codes of the islands, ascending.
pub(super) fn write_catalogue(
    spec: &SyntheticSpec,
    write: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<Vec<IslandCode>> {
    let mut random = SplitMix64::new(spec.seed, 1, 0);
    let mut codes = BTreeSet::new();
    while codes.len() < spec.islands as usize {
        codes.extend(IslandCode::from_number(random.next() % 1_000_000_000_000));
    }
    let slugs: Vec<String> = (0..spec.creators as usize)
        .map(|at| slug(&mut random, at))
        .collect();
    let owners = owners(&mut random, codes.len(), slugs.len());
    let mut file = Vec::new();
    write_csv_header(&mut file, FileKind::Islands)?;
    for (code, owner) in codes.iter().zip(owners) {
        let creator = owner.map_or("", |at| &slugs[at]);
        // Measured: 63 % UEFN, 33 % Creative, the rest unknown.
        let tool = match random.unit() {
            share if share < 0.63 => "uefn",
            share if share < 0.96 => "creative",
            _ => "",
        };
        let (title, tags) = (title(&mut random), tags(&mut random));
        let code = code.text();
        let texts = [code.as_str(), &title, creator, tool, &tags];
        write_csv_row(&mut file, texts.map(|text| Cell::Text(Some(text))))?;
    }
    write("islands.csv", &file)?;
    file.clear();
    write_csv_header(&mut file, FileKind::Creators)?;
    for slug in &slugs {
        let name = (random.unit() < 0.95).then(|| name(&mut random));
        let followers = count(at(curve("followers"), random.unit()));
        let (following, plays) = (random.below(200), followers * 11 + random.next() % 1_000);
        let plays = (random.unit() < 0.8).then_some(plays);
        // One creator in ten is only named in islands.csv.
        if random.unit() < 0.9 {
            let row = [
                Cell::Text(Some(slug)),
                Cell::Text(name.as_deref()),
                Cell::Count(Some(followers)),
                Cell::Count(Some(following as u64)),
                Cell::Count(plays),
            ];
            write_csv_row(&mut file, row)?;
        }
    }
    write("creators.csv", &file)?;
    Ok(codes.into_iter().collect())
}

/// Assigns islands to creators, as indices: 95 % of the islands have a creator, 3 % of the creators have
/// no island.
fn owners(random: &mut SplitMix64, islands: usize, creators: usize) -> Vec<Option<usize>> {
    let mut owners: Vec<Option<usize>> = Vec::with_capacity(islands);
    let owned = islands * 95 / 100;
    let holders = creators.saturating_sub(creators * 3 / 100).min(owned);
    // No creator has more than 0.5 % of the islands, unless there are too few creators.
    let most = (islands / 200).max(owned.div_ceil(holders.max(1))) as u64;
    let holding = curve("holding");
    let extra = |holder: usize| {
        let rank = (float(holder as u64) + 0.5) / float(holders as u64);
        at(holding, rank) - 1.0
    };
    let extras: f64 = (0..holders).map(extra).sum();
    let scale = if extras > 0.0 {
        float((owned - holders) as u64) / extras
    } else {
        0.0
    };
    let mut carried = 0.0;
    for holder in 0..holders {
        carried += extra(holder) * scale;
        let whole = (count((carried - 0.5).max(0.0)) + 1).min(most);
        carried -= float(whole - 1);
        for _ in 0..whole {
            if owners.len() < owned {
                owners.push(Some(holder));
            }
        }
    }
    // Islands left over by the cap are distributed in turn.
    for left in 0..owned.saturating_sub(owners.len()) {
        owners.extend((holders > 0).then_some(Some(left % holders.max(1))));
    }
    owners.resize(islands, None);
    for last in (1..owners.len()).rev() {
        owners.swap(last, random.below(last + 1));
    }
    owners
}
