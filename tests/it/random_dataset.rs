//! Random datasets, reproducible by seed, and their CSV files.
//!
//! They are difficult: few distinct values, so that there are many ties; nulls, gaps, empty files,
//! islands never seen, titles in many scripts.

use std::fmt::Display;

use crate::oracle::{COUNTS, DECIMALS, Island, Profile, Row};
use crate::prelude::*;

/// `generatedAt` of every random dataset.
pub(crate) const GENERATED_AT: &str = "2026-11-21T00:10:00Z";

/// Days of a dataset, with ends of months and years and a leap day among them.
pub(crate) const DAYS: &str = "
2024-01-01 2024-02-28 2024-02-29 2024-03-01 2024-12-31 2025-01-01 2025-06-29 2025-06-30 2026-11-17
2026-11-18 2026-11-19 2026-11-20
";
/// Parts of titles.
pub(crate) const WORDS: &str = "\
    SHOPPİNG|Mall|ışık|Straße|STRASSE|STRAẞE|ΟΔΥΣΣΕΥΣ|σοφός|سباق|🏝️|👩‍🚀|say \"hi\"|one, two|\
    <b>&amp;</b>|back\\slash|1v1|ǅungla|ﬁne|İstanbul|e\u{301}a\u{307}|100%|a+b|死";
pub(crate) const TAGS: &str = "pvp|1v1|free for all|mode:zone|R&B|PVP|fête|100%";
/// Slugs of creators, of which a dataset uses some.
pub(crate) const SLUGS: &str = "epic|Epic|two words|İki|straße|سلام|a+b|50%|dash-_.~";
/// The largest count.
const MOST: u64 = (1 << 53) - 1;
/// The newest live step: 2026-11-21T00:00:00Z.
const NEWEST_STEP: u64 = 1_795_219_200;

/// Splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True with a probability of one in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            let other = self.below(end as u64 + 1);
            list.swap(end, usize::try_from(other).unwrap());
        }
    }

    /// A count: null, one of a few, or a very large one.
    fn count(&mut self) -> Option<u64> {
        match self.below(12) {
            0 | 1 => None,
            2 => Some(MOST - self.below(2)),
            3 => Some(self.below(100_000)),
            _ => Some(self.below(5)),
        }
    }

    /// A decimal below `end` with up to three digits after the point, in its shortest form.
    fn decimal(&mut self, end: u64) -> Option<String> {
        if self.one_in(4) {
            return None;
        }
        let text = format!("{}.{:03}", self.below(end), self.below(1000));
        Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
    }

    fn row(&mut self) -> Row {
        let mut row = Row::default();
        if !self.one_in(10) {
            row.counts = [(); 6].map(|()| self.count());
            row.decimals = [self.decimal(300), self.decimal(1), self.decimal(1)];
        }
        row
    }

    /// Rows for some of the codes, sometimes for none.
    fn rows<T>(&mut self, codes: &[String], make: fn(&mut Self) -> T) -> BTreeMap<String, T> {
        let mut rows = BTreeMap::new();
        if !self.one_in(8) {
            for code in codes {
                if !self.one_in(3) {
                    rows.insert(code.clone(), make(self));
                }
            }
        }
        rows
    }

    fn island(&mut self) -> Island {
        let mut title = self.pick(&parts(WORDS)).to_owned();
        for _ in 0..self.below(4) {
            title.push(' ');
            title.push_str(self.pick(&parts(WORDS)));
        }
        let mut tags: Vec<String> = Vec::new();
        for tag in parts(TAGS) {
            if self.one_in(4) {
                tags.push(tag.to_owned());
            }
            // One that occurs twice on an island is one match.
            if self.one_in(16) {
                tags.extend(tags.last().cloned());
            }
        }
        let creator = (!self.one_in(5)).then(|| self.pick(&parts(SLUGS)[..7]).to_owned());
        let created_in =
            [None, Some("uefn"), Some("creative")][usize::try_from(self.below(3)).unwrap()];
        Island {
            title,
            creator,
            created_in,
            tags,
        }
    }

    fn profile(&mut self) -> Profile {
        let name = (!self.one_in(3)).then(|| self.pick(&parts(WORDS)).to_owned());
        (name, [(); 3].map(|()| self.count()))
    }
}

impl World {
    pub(crate) fn random(seed: u64, most_islands: u64) -> Self {
        let mut rng = Rng(seed);
        let mut world = Self {
            generated_at: GENERATED_AT,
            base_url: BASE_URL,
            islands: BTreeMap::new(),
            creators: None,
            daily: BTreeMap::new(),
            ccu: BTreeMap::new(),
            live: BTreeMap::new(),
            platform: None,
        };
        for _ in 0..=rng.below(most_islands) {
            let (a, b, c) = (rng.below(3), rng.below(2) * 9999, rng.below(10_000));
            world
                .islands
                .insert(format!("{a:04}-{b:04}-{c:04}"), rng.island());
        }
        // The last island is never seen, unless it is the only one.
        let mut codes: Vec<String> = world.islands.keys().cloned().collect();
        if codes.len() > 1 {
            codes.pop();
        }
        if !rng.one_in(4) {
            let mut slugs = parts(SLUGS);
            slugs.retain(|_| rng.below(3) > 0);
            let profiles = slugs
                .into_iter()
                .map(|slug| (slug.to_owned(), rng.profile()));
            world.creators = Some(profiles.collect());
        }
        if !rng.one_in(8) {
            world.add_days(&mut rng, &codes);
        }
        world.add_steps(&mut rng, &codes);
        world
    }

    fn add_days(&mut self, rng: &mut Rng, codes: &[String]) {
        for day in words(DAYS) {
            let kind = rng.below(6);
            if kind < 4 {
                self.daily.insert(day.to_owned(), rng.rows(codes, Rng::row));
            }
            if kind == 3 || kind == 4 {
                self.ccu.insert(day.to_owned(), rng.rows(codes, Rng::count));
            }
        }
    }

    fn add_steps(&mut self, rng: &mut Rng, codes: &[String]) {
        if !rng.one_in(5) {
            for back in (0..160).filter(|back| back % 7 == 0 || *back < 3) {
                let mut rows = rng.rows(codes, Rng::count);
                // The contract leaves the sum of an all-null step open, so each has a player count.
                rows.insert(codes[0].clone(), Some(rng.below(9)));
                self.live.insert(NEWEST_STEP - back * 600, rows);
            }
        }
        if rng.one_in(2) {
            let mut steps = Vec::new();
            if !rng.one_in(6) {
                for back in (0..170).rev() {
                    if !rng.one_in(9) {
                        steps.push((NEWEST_STEP - back * 600, rng.count()));
                    }
                }
            }
            self.platform = Some(steps);
        }
    }

    /// The first random dataset with more than `islands` islands and `days` days; `most_islands` as in
    /// [`World::random`].
    pub(crate) fn with_more_than(islands: usize, days: usize, most_islands: u64) -> World {
        let mut worlds = (1..1000).map(|seed| World::random(seed, most_islands));
        let found = worlds.find(|world| world.islands.len() > islands && world.days().len() > days);
        found.unwrap()
    }

    /// Publishes the dataset to `published` in `dir` and returns that directory.
    pub(crate) fn publish(&self, dir: &TempDir) -> PathBuf {
        let (dataset, published) = (dir.join("dataset"), dir.join("published"));
        self.write(&dataset);
        publish(&dataset, &published, GENERATED_AT);
        published
    }

    /// A server of the dataset, and its directory.
    pub(crate) fn serve(&self) -> (TempDir, Server) {
        let dir = TempDir::new();
        let server = Server::of(&self.publish(&dir), &[]);
        (dir, server)
    }

    /// Writes the files of CONTRACT section 3.
    pub(crate) fn write(&self, dir: &Path) {
        let mut text = "code,title,creator,createdIn,tags\n".to_owned();
        for (code, island) in &self.islands {
            let tags = island.tags.join("|");
            let creator = island.creator.as_deref().unwrap_or("");
            let tool = island.created_in.unwrap_or("");
            line(&mut text, &[code, &island.title, creator, tool, &tags]);
        }
        write_file(&dir.join("islands.csv"), &text);
        if let Some(creators) = &self.creators {
            let mut text = "slug,name,followers,following,lifetimePlays\n".to_owned();
            for (slug, (name, counts)) in creators {
                let [followers, following, plays] = counts.map(shown);
                let name = name.as_deref().unwrap_or("");
                line(&mut text, &[slug, name, &followers, &following, &plays]);
            }
            write_file(&dir.join("creators.csv"), &text);
        }
        for (day, rows) in &self.daily {
            let mut text = format!("code,{},{}\n", COUNTS.join(","), DECIMALS.join(","));
            for (code, row) in rows {
                let mut fields = vec![code.clone()];
                fields.extend(row.counts.map(shown));
                fields.extend(row.decimals.clone().map(shown));
                line(&mut text, &fields);
            }
            write_file(&dir.join(format!("daily/{day}.csv")), &text);
        }
        for (day, rows) in &self.ccu {
            write_file(
                &dir.join(format!("ccu/{day}.csv")),
                &pairs("code,peakCCU", rows),
            );
        }
        for (time, rows) in &self.live {
            write_file(
                &dir.join(format!("live/{time}.csv")),
                &pairs("code,players", rows),
            );
        }
        if let Some(steps) = &self.platform {
            let rows = steps.iter().map(|(time, players)| (time, players));
            write_file(&dir.join("platform.csv"), &pairs("time,players", rows));
        }
    }
}

fn shown(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A file of two columns.
fn pairs<'a, K: Display + 'a>(
    header: &str,
    rows: impl IntoIterator<Item = (&'a K, &'a Option<u64>)>,
) -> String {
    let mut text = format!("{header}\n");
    for (key, count) in rows {
        writeln!(text, "{key},{}", shown(*count)).unwrap();
    }
    text
}

/// One record, quoted where RFC 4180 requires it.
fn line(text: &mut String, fields: &[impl AsRef<str>]) {
    let quoted = fields.iter().map(|field| {
        let field = field.as_ref();
        if field.contains([',', '"', '\r', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.to_owned()
        }
    });
    writeln!(text, "{}", quoted.collect::<Vec<_>>().join(",")).unwrap();
}
