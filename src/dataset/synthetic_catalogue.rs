//! islands.csv and creators.csv of a synthetic dataset. Titles, tags, slugs and names are drawn from the word
//! lists of `data/synthetic/words.txt`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::LazyLock;

use super::distributions::{SplitMix64, SyntheticSpec, at, count, curve, float, lists};
use super::rows::{Cell, FileKind, write_csv_header, write_csv_row};
use crate::model::IslandCode;

static LISTS: LazyLock<HashMap<&str, Vec<&str>>> =
    LazyLock::new(|| lists(include_str!("../../data/synthetic/words.txt")));

const TITLE_CHARS_MAX: usize = 40;

const SLUG_BYTES_MAX: usize = 16;

/// Draws a word of a list, and the words in it.
fn draw(random: &mut SplitMix64, list: &str) -> String {
    let words = &LISTS[list];
    let mut text = String::new();
    for part in words[random.below(words.len())].split_inclusive('}') {
        let (before, list) = part.split_once('{').unwrap_or((part, ""));
        text.push_str(before);
        if let Some(list) = list.strip_suffix('}') {
            text.push_str(&draw(random, list));
        }
    }
    text
}

/// Draws a title of at most 40 characters, without leading or trailing spaces.
fn title(random: &mut SplitMix64) -> String {
    loop {
        let mut title = draw(random, "title");
        if random.unit() < 0.4 {
            title = title.to_uppercase();
        }
        let framed = draw(random, "framed").replace('@', &title);
        if framed.chars().count() <= TITLE_CHARS_MAX {
            return framed;
        }
    }
}

/// Draws a slug of 3 to 16 bytes of `[a-z0-9._-]`. `number` makes it unique.
fn slug(random: &mut SplitMix64, number: usize) -> String {
    let mut slug = draw(random, "slug");
    // The words have no digits, so the number alone makes slugs unique.
    let digits = number.to_string();
    slug.truncate(SLUG_BYTES_MAX - digits.len());
    slug + &digits
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
    let mut chosen: Vec<String> = Vec::with_capacity(wanted);
    while chosen.len() < wanted {
        let tag = draw(random, "tags");
        if !chosen.contains(&tag) {
            chosen.push(tag);
        }
    }
    chosen.join("|")
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
        let tool = draw(&mut random, "tool");
        let (title, tags) = (title(&mut random), tags(&mut random));
        let texts = [&*title, creator, &*tool, &*tags];
        let texts = texts.map(|text| Cell::Text(Some(text)));
        let code = [Cell::Code(*code)].into_iter();
        write_csv_row(&mut file, code.chain(texts))?;
    }
    write("islands.csv", &file)?;
    file.clear();
    write_csv_header(&mut file, FileKind::Creators)?;
    for slug in &slugs {
        let name = (random.unit() < 0.95).then(|| draw(&mut random, "creator"));
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

/// Assigns islands to creators, as indices: 95 % of the islands have a creator, 3 % of the creators have no island. The
/// curve `holding` has the number of islands by the rank of a creator.
fn owners(random: &mut SplitMix64, islands: usize, creators: usize) -> Vec<Option<usize>> {
    let owned = islands * 95 / 100;
    let holders = (creators - creators * 3 / 100).min(owned);
    // Each has one island. Sums of the shares in the others:
    let mut sum = 0.0;
    let ends = (0..holders).map(|holder| {
        let rank = (float(holder as u64) + 0.5) / float(holders as u64);
        sum += at(curve("holding"), rank) - 1.0;
        sum
    });
    let ends: Vec<f64> = ends.collect();
    let holder_of = |island: usize| {
        let share = random.unit() * sum;
        let other = || ends.partition_point(|end| *end <= share).min(holders - 1);
        let is_owned = island < owned && holders > 0;
        is_owned.then(|| if island < holders { island } else { other() })
    };
    let mut owners: Vec<Option<usize>> = (0..islands).map(holder_of).collect();
    for last in (1..owners.len()).rev() {
        owners.swap(last, random.below(last + 1));
    }
    owners
}
