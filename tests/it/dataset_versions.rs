//! A dataset with a sequence of editions, each marked, so that the content of a response shows its
//! edition.

use crate::prelude::*;

/// The island whose title and players are the marks.
const MARKED: &str = "0000-0000-0001";
pub(crate) const MARKED_TARGET: &str = "/v1/islands/0000-0000-0001";
const ISLANDS: u32 = 30;
/// Number of days kept where old ones are removed.
const DAYS: u32 = 5;
/// Number of live steps in the dataset; older ones are removed, as in service.
const STEPS: u32 = 6;
/// The first live step, 2026-09-22T00:00:00Z: no later step of a long test is in the future.
const FIRST_STEP: u32 = 1_790_035_200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Islands, a day and a live step.
    All,
    /// One more live step, as every ten minutes.
    Live,
    Day,
    Islands,
    /// Everything, under an older timestamp and so with `--force`.
    Forced,
}

impl Change {
    pub(crate) const ALL: [Change; 5] = [
        Change::All,
        Change::Live,
        Change::Day,
        Change::Islands,
        Change::Forced,
    ];
}

/// One state of the dataset, and the time of its publish.
#[derive(Clone, Debug)]
pub(crate) struct Edition {
    /// Increases, also where a forced timestamp is lower.
    pub(crate) number: u32,
    pub(crate) change: Change,
    pub(crate) generated_at: String,
    title: String,
    players: u32,
    latest: String,
}

impl Edition {
    /// Whether a response with this edition's timestamp has this edition's marks.
    pub(crate) fn matches(&self, target: &str, answer: &Value) -> bool {
        match target {
            "/v1/live" => {
                let islands = answer["islands"].as_array().unwrap();
                let marked = islands.iter().find(|island| island["code"] == MARKED);
                marked.is_some_and(|island| {
                    island["players"] == self.players && island["title"] == *self.title
                })
            }
            "/v1/rankings" => answer["latest"] == *self.latest,
            "/v1/islands?limit=3" => answer["meta"]["total"] == ISLANDS,
            MARKED_TARGET => {
                let island = &answer["island"];
                island["title"] == *self.title && island["lastSeen"] == *self.latest
            }
            _ => true,
        }
    }
}

/// The dataset on disk, and its current edition.
pub(crate) struct Editions {
    dataset: PathBuf,
    /// Old days are removed, so that the size stays the same.
    removes_days: bool,
    number: u32,
    title: u32,
    day: u32,
    step: u32,
}

impl Editions {
    /// Writes the first edition to a new directory. All days are kept.
    pub(crate) fn begin(dataset: &Path) -> Editions {
        Editions::begin_with(dataset, false)
    }

    /// Writes the first edition to a new directory. Each new day replaces the oldest one.
    pub(crate) fn begin_with_few_days(dataset: &Path) -> Editions {
        Editions::begin_with(dataset, true)
    }

    fn begin_with(dataset: &Path, removes_days: bool) -> Editions {
        let mut editions = Editions {
            dataset: dataset.to_owned(),
            removes_days,
            number: 0,
            title: 0,
            day: 0,
            step: 0,
        };
        let mut creators = "slug,name,followers,following,lifetimePlays\n".to_owned();
        for creator in 0..6 {
            writeln!(creators, "c{creator},Creator {creator},{creator},,").unwrap();
        }
        write_file(&dataset.join("creators.csv"), &creators);
        for _ in 1..STEPS {
            editions.turn(Change::All);
        }
        editions
    }

    pub(crate) fn dataset(&self) -> &Path {
        &self.dataset
    }

    /// Continues after another dataset, which has this number of editions and of days: a publish with
    /// fewer days would be refused.
    pub(crate) fn continue_after(&mut self, number: u32, days: u32) {
        assert!(number >= self.number);
        self.number = number;
        while self.day < days {
            self.day += 1;
            self.write_day();
        }
    }

    pub(crate) fn days(&self) -> u32 {
        self.day
    }

    /// Changes the dataset on disk; returns its edition.
    pub(crate) fn turn(&mut self, change: Change) -> Edition {
        use Change::{All, Day, Forced, Islands, Live};
        self.number += 1;
        if matches!(change, All | Islands | Forced) {
            self.title = self.number;
            self.write_islands();
        }
        if matches!(change, All | Day | Forced) {
            self.day += 1;
            self.write_day();
        }
        if matches!(change, All | Live | Forced) {
            self.step += 1;
            self.write_step();
        }
        // A forced timestamp is before all others, and unique too.
        let month = if change == Forced { 11 } else { 12 };
        let (day, hour, minute) = (self.number / 1440, self.number / 60 % 24, self.number % 60);
        Edition {
            number: self.number,
            change,
            generated_at: format!("2026-{month}-{:02}T{hour:02}:{minute:02}:00Z", day + 1),
            title: title(self.title),
            players: players(self.step),
            latest: date(self.day),
        }
    }

    fn write_islands(&self) {
        let mut text = "code,title,creator,createdIn,tags\n".to_owned();
        for island in 1..=ISLANDS {
            let title = if island == 1 {
                title(self.title)
            } else {
                format!("Island {island}")
            };
            let creator = island % 7;
            writeln!(
                text,
                "{},{title},c{creator},uefn,pvp|tag {creator}",
                code(island)
            )
            .unwrap();
        }
        write_file(&self.dataset.join("islands.csv"), &text);
    }

    fn write_day(&self) {
        let mut text = DAILY.to_owned();
        for island in 1..=ISLANDS {
            let peak = island * 7 + self.day;
            writeln!(
                text,
                "{},{peak},{},{},,{peak},1,2.5,0.25,",
                code(island),
                peak * 3,
                peak * 30
            )
            .unwrap();
        }
        write_file(
            &self.dataset.join(format!("daily/{}.csv", date(self.day))),
            &text,
        );
        if self.removes_days {
            self.forget(format!("daily/{}.csv", date(self.day.saturating_sub(DAYS))));
        }
    }

    fn write_step(&self) {
        let file = |step: u32| format!("live/{}.csv", FIRST_STEP + 600 * step);
        let mut text = "code,players\n".to_owned();
        for island in 1..=ISLANDS {
            let players = if island == 1 {
                players(self.step)
            } else {
                island
            };
            writeln!(text, "{},{players}", code(island)).unwrap();
        }
        write_file(&self.dataset.join(file(self.step)), &text);
        self.forget(file(self.step.saturating_sub(STEPS)));
    }

    fn forget(&self, file: String) {
        let _was_never_there = fs::remove_file(self.dataset.join(file));
    }

    pub(crate) fn publish(&self, edition: &Edition, to: &Path) -> Command {
        let mut command = publish_command(&self.dataset, to);
        command.args(["--generated-at", &edition.generated_at]);
        // Not otherwise: it renders all again.
        if edition.change == Change::Forced || self.has_removed_day_of(to) {
            command.arg("--force");
        }
        command
    }
}

impl Editions {
    /// The published data has a day that was removed from the dataset.
    fn has_removed_day_of(&self, published: &Path) -> bool {
        let published = Published::at(published);
        let dumps = published.manifest().map(|_| published.dumps());
        let oldest = date((self.day + 1).saturating_sub(DAYS));
        let is_removed = |name: &String| {
            let day = name.strip_prefix("daily/");
            day.is_some_and(|day| day < oldest.as_str())
        };
        self.removes_days && dumps.is_some_and(|dumps| dumps.keys().any(is_removed))
    }
}

fn code(island: u32) -> String {
    format!("0000-0000-{island:04}")
}

fn title(mark: u32) -> String {
    format!("Edition {mark}")
}

fn players(step: u32) -> u32 {
    10_000 + step
}

/// A day for each number, in ascending order, without the 29th and later ones.
fn date(day: u32) -> String {
    let (year, month, day) = (2000 + day / 336, day / 28 % 12 + 1, day % 28 + 1);
    format!("{year}-{month:02}-{day:02}")
}
