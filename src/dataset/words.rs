//! The words of the synthetic catalogue: the 152 tags, and the lists that titles, slugs and names
//! are put together from. The tags are facts of the field; every other word here is our own.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use super::shapes::{FOLLOWERS, HOLDING, Random, Synthetic, at, count, float};
use crate::model::IslandCode;

/// The 152 tags, most used first for the four that lead by far.
#[rustfmt::skip] // a list of words, many a line
const TAGS: [&str; 152] = [
    "just for fun", "free for all", "pvp", "1v1", "2d", "2v2", "3v3", "4v4", "5v5", "6v6",
    "7v7", "8v8", "action", "ad", "adventure", "aim course", "arcade", "arena", "artistic",
    "atmospheric", "attack", "base", "base building", "battle", "battle royale", "board game",
    "boss battle", "boxfight", "building", "capture the flag", "card game", "casual",
    "choices matter", "classes", "clicker", "co-op", "collection", "competitive", "crafting",
    "creatures", "deathrun", "defend", "difficulty: easy", "difficulty: medium",
    "difficulty: hard", "difficulty: very hard", "difficulty: ultra hard",
    "difficulty: impossible", "driver simulator", "duo", "economy", "edit course",
    "educational", "episodic", "escape", "event", "exploration", "explosives",
    "farming simulator", "fashion", "fighting", "first person", "fortnitemares", "friendly",
    "funny", "gun fight", "gun game", "hardcore", "heroes", "hide & seek", "horror", "hub",
    "infection", "jam system", "king of the hill", "melee", "memes", "minigame", "mining",
    "moba", "moving", "music", "mystery", "nonlinear", "objective", "one in the chamber",
    "one life", "one shot", "open world", "parkour", "party game", "party world", "patchwork",
    "peaceful", "physics", "pinball", "pixel art", "platformer", "point capture", "practice",
    "prop", "prop hunt", "puzzle", "pve", "quiz", "race", "respawn", "retro", "roguelike",
    "role playing", "rounds", "rpg", "runner", "sandbox", "search & destroy", "seasonal",
    "secrets", "sequel", "series", "shooter", "shop", "show", "side scroller", "simulator",
    "single player", "skills", "sniper", "solo", "space", "sports", "squad", "stealth", "story",
    "strategy", "survival", "survival horror", "team deathmatch", "teams", "timed", "top-down",
    "tower defense", "training", "trios", "trivia", "turn-based", "tutorial", "tycoon",
    "unbalanced teams", "visual novel", "winterfest", "word games", "zonewars",
];

/// First words of a title.
#[rustfmt::skip] // a list of words, many a line
const LEAD: [&str; 72] = [
    "Crazy", "Ultimate", "Super", "Red", "Blue", "Golden", "Tiny", "Giant", "Frozen", "Lava",
    "Neon", "Haunted", "Secret", "Lucky", "Rapid", "Mega", "Pirate", "Ninja", "Robot", "Wizard",
    "Zombie", "Jungle", "Desert", "Arctic", "Cosmic", "Hidden", "Broken", "Silent", "Royal",
    "Shadow", "Crystal", "Turbo", "Classic", "Modern", "Retro", "Wild", "Magic", "Tropical",
    "Candy", "Thunder", "Midnight", "Endless", "Floating", "Ancient", "Toxic", "Savage",
    "Chill", "Chaotic", "Sunny", "Stormy", "Iron", "Velvet", "Rainbow", "Electric", "Lost",
    "Forgotten", "Epic", "Sweaty", "Realistic", "Impossible", "Burning", "Nordic", "Pixel",
    "Cloudy", "Feral", "Copper", "Quiet", "Dizzy", "Brave", "Grumpy", "Sleepy", "Spooky",
];

/// Places a title is about.
#[rustfmt::skip] // a list of words, many a line
const THEME: [&str; 63] = [
    "Castle", "Island", "Arena", "Tower", "Factory", "Village", "Prison", "School", "Mall",
    "Temple", "Bunker", "Harbor", "Canyon", "Volcano", "Station", "Hospital", "Mansion",
    "Garden", "Farm", "Bakery", "Garage", "Museum", "Stadium", "Airport", "Train", "Subway",
    "Lighthouse", "Reef", "Swamp", "Meadow", "Forest", "Glacier", "Dungeon", "Circus",
    "Carnival", "Hotel", "Ranch", "Library", "Laboratory", "Pyramid", "Bridge", "Rooftop",
    "Backyard", "Kitchen", "Warehouse", "Shipyard", "Mine", "Quarry", "Market", "City",
    "Skyline", "Planet", "Asteroid", "Ocean", "Submarine", "Sewer", "Attic", "Cabin", "Camp",
    "Lake", "River", "Waterfall", "Valley",
];

/// Kinds of play.
#[rustfmt::skip] // a list of words, many a line
const KIND: [&str; 38] = [
    "Tycoon", "Deathrun", "Parkour", "Boxfights", "Zonewars", "Simulator", "Survival", "Escape",
    "Race", "Showdown", "Battle", "Quiz", "Maze", "Defense", "Gungame", "Infection", "Hangout",
    "Roleplay", "Brawl", "Obby", "Clicker", "Heist", "Horror", "Adventure", "Practice",
    "Warmup", "Duels", "Wars", "Runner", "Party", "Royale", "Rumble", "Challenge", "Hunt",
    "Gauntlet", "Scramble", "Rush", "Siege",
];

/// What follows in a longer title.
#[rustfmt::skip] // a list of words, many a line
const TAIL: [&str; 30] = [
    "1v1", "2v2", "3v3", "4v4", "FFA", "V2", "2.0", "24/7", "XP", "Solo", "Duos", "Squads",
    "100 Levels", "50 Levels", "Ranked", "All Weapons", "No Build", "Season 3", "Hard", "Easy",
    "[NEW]", "Beta", "Remastered", "Chapter 2", "with Friends", "Part 2", "Deluxe", "OG", "Pro",
    "2 Player",
];

/// Titles that many islands bear alike: about one title in forty is a repeated one.
#[rustfmt::skip] // a list of words, many a line
const COMMON: [&str; 20] = [
    "1V1 BUILD FIGHTS", "BOX FIGHTS", "ZONE WARS", "GUN GAME", "DEATHRUN", "PROP HUNT",
    "AIM TRAINER", "FREE FOR ALL", "EDIT COURSE", "HIDE AND SEEK", "My Island", "Test",
    "RED VS BLUE", "THE PIT", "1v1", "TYCOON", "HORROR", "PARKOUR", "TEAM DEATHMATCH",
    "SNIPER ONLY",
];

/// Emoji of one code point (and its selector).
#[rustfmt::skip] // a list of words, many a line
const EMOJI: [&str; 26] = [
    "🔥", "🎯", "👻", "🏆", "⚡", "🌴", "🚗", "💀", "🧟", "🎁", "👑", "❄️", "🌊", "🎮", "💎", "🏝️", "🐔", "🍕",
    "🤖", "🚀", "🧱", "🔫", "😱", "🎃", "🌈", "⚔️",
];

/// Emoji made with a zero-width joiner.
#[rustfmt::skip] // a list of words, many a line
const JOINED_EMOJI: [&str; 5] = [
    "👨\u{200d}🚀", "👩\u{200d}🍳", "🏴\u{200d}☠️", "❤️\u{200d}🔥", "🧑\u{200d}🌾",
];

/// Titles in other scripts and with accents, all of them in NFC.
#[rustfmt::skip] // a list of words, many a line
const FOREIGN: [&str; 38] = [
    "قلعة الرمال", "سباق السيارات", "حرب الألوان", "مدينة الأشباح", "جزيرة الكنز", "تحدي القفز",
    "معركة الصناديق", "بيت الرعب", "صيد العناصر", "المتاهة الكبرى", "忍者の島", "かくれんぼ", "ゾンビサバイバル",
    "激闘アリーナ", "迷路からの脱出", "鬼ごっこ", "僵尸生存", "迷宫大冒险", "숨바꼭질", "좀비 서바이벌", "탈출 게임", "점프 맵",
    "Замок теней", "Гонки на льду", "Побег из тюрьмы", "Битва цветов", "Зомби остров",
    "Château Hanté", "Évasion Extrême", "Mañana en la Isla", "Corrida Mágica",
    "Batalla de Niños", "Überleben im Dschungel", "Große Höhle", "Łódź Podwodna",
    "Prisão Máxima", "Πύργος Μάχης", "Νησί Θησαυρού",
];

/// Frames with what trips parsers: dotted capital I, zero-width and ideographic spaces, quotes,
/// commas, markup, doubled spaces.
#[rustfmt::skip] // a list of words, many a line
const ODD: [&str; 21] = [
    "SHOPPİNG {}", "CHİLL {}", "ZOMBİE {}", "MOUNTAİN {}", "{}\u{200b}", "{}\u{200b} Zone",
    "NEW\u{3000}{}", "\"REAL\" {}", "The \"{}\"", "Run, Hide, {}", "{}, Again", "<3 {}",
    "{} <V3>", "Cops & {}", "{} & Chill", "Tag & {}", "Build & {}", "{} > All", "Escape  {}",
    "{}  (XP)", "Super  {}",
];

/// First parts of a creator's slug.
#[rustfmt::skip] // a list of words, many a line
const NAME: [&str; 46] = [
    "pixel", "nova", "frost", "ember", "lunar", "echo", "blaze", "mint", "orbit", "raven",
    "tiger", "panda", "koala", "fox", "otter", "maple", "cedar", "pine", "slate", "cobalt",
    "coral", "amber", "onyx", "opal", "ruby", "jade", "storm", "drift", "dash", "zen", "volt",
    "hex", "rune", "moss", "fern", "wren", "lark", "finch", "comet", "astro", "turbo", "mega",
    "tiny", "lucky", "sunny", "misty",
];

/// Last parts of a creator's slug.
#[rustfmt::skip] // a list of words, many a line
const ROLE: [&str; 16] = [
    "studios", "games", "maps", "labs", "creates", "builds", "works", "yt", "ttv", "dev", "fn",
    "gg", "world", "crew", "team", "xd",
];

/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 40;

/// The longest slug, in bytes.
const SLUG_BYTES_MAX: usize = 16;

fn pick(random: &mut Random, list: &'static [&'static str]) -> &'static str {
    list[random.below(list.len())]
}

/// A title of at most 40 characters, without leading or trailing space.
fn title(random: &mut Random) -> String {
    let mut title = match random.unit() {
        kind if kind < 0.018 => pick(random, &COMMON).to_owned(),
        kind if kind < 0.046 => format!("{} {}", pick(random, &FOREIGN), pick(random, &TAIL)),
        kind if kind < 0.07 => {
            let inner = format!("{} {}", pick(random, &LEAD), pick(random, &KIND));
            pick(random, &ODD).replace("{}", &inner)
        }
        _ => plain(random),
    };
    if random.unit() < 0.4 {
        title = title.to_uppercase();
    }
    let emoji = match random.unit() {
        chance if chance < 0.004 => pick(random, &JOINED_EMOJI),
        chance if chance < 0.337 => pick(random, &EMOJI),
        _ => "",
    };
    if !emoji.is_empty() {
        let framed = match random.below(3) {
            0 => format!("{emoji} {title}"),
            1 => format!("{title} {emoji}"),
            _ => format!("{emoji}{title}{emoji}"),
        };
        // Cutting would tear a joined emoji apart: a title that has no room goes without.
        if framed.chars().count() <= TITLE_CHARS_MAX {
            title = framed;
        }
    }
    title
}

/// One to four English words, never more than 40 characters.
fn plain(random: &mut Random) -> String {
    let (lead, theme) = (pick(random, &LEAD), pick(random, &THEME));
    let (kind, tail) = (pick(random, &KIND), pick(random, &TAIL));
    match random.unit() {
        shape if shape < 0.05 => format!("{lead} {kind}"),
        shape if shape < 0.13 => format!("{theme} {kind} {tail}"),
        shape if shape < 0.24 => format!("{lead} {kind} {tail}"),
        shape if shape < 0.55 => format!("{lead} {theme} {kind}"),
        _ => {
            let long = format!("{lead} {theme} {kind} {tail}");
            if long.len() <= TITLE_CHARS_MAX {
                long
            } else {
                format!("{lead} {theme} {kind}")
            }
        }
    }
}

/// A slug of 3 to 16 bytes of `[a-z0-9._-]`; `number` makes it distinct where words run out.
fn slug(random: &mut Random, number: usize) -> String {
    let mut slug = pick(random, &NAME).to_owned();
    match random.below(6) {
        0 => slug.push_str(pick(random, &ROLE)),
        1 => slug = format!("{slug}.{}", pick(random, &ROLE)),
        2 => slug = format!("{slug}_{}", pick(random, &NAME)),
        3 => slug = format!("{slug}-{}", pick(random, &NAME)),
        _ => {}
    }
    // Words hold no digit, so the digits alone tell two slugs apart: each is another number.
    let digits = number.to_string();
    slug.truncate(SLUG_BYTES_MAX - digits.len());
    slug + &digits
}

/// What a creator is shown as: the slug's words, or any words at all.
fn name(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("{}, {}", pick(random, &NAME), pick(random, &ROLE)),
        1 => format!("{} {}", pick(random, &EMOJI), pick(random, &NAME)),
        2 => pick(random, &FOREIGN).to_owned(),
        _ => format!("{} {}", pick(random, &LEAD), pick(random, &NAME)),
    }
}

/// One to four distinct tags in order of choice, joined by `|`.
fn tags(random: &mut Random) -> String {
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

/// A tag by popularity: the four leading ones as measured, the rest falling off with their place.
fn tag(random: &mut Random) -> &'static str {
    match random.unit() {
        share if share < 0.110 => TAGS[0],
        share if share < 0.187 => TAGS[1],
        share if share < 0.260 => TAGS[2],
        share if share < 0.315 => TAGS[3],
        _ => {
            // The lesser of two draws leans to 0. The stride, coprime to 148, scatters the
            // alphabet so that the popular tags do not all begin with a digit.
            let at = random.below(148).min(random.below(148));
            TAGS[4 + at * 45 % 148]
        }
    }
}

/// Writes `islands.csv` and `creators.csv`; hands back the islands' codes, ascending.
pub(super) fn catalogue(
    spec: &Synthetic,
    write: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<Vec<IslandCode>> {
    let mut random = Random::new(spec.seed, 1, 0);
    let mut codes = BTreeSet::new();
    while codes.len() < spec.islands as usize {
        codes.extend(IslandCode::from_number(random.next() % 1_000_000_000_000));
    }
    let slugs: Vec<String> = (0..spec.creators as usize)
        .map(|at| slug(&mut random, at))
        .collect();
    let owners = owners(&mut random, codes.len(), slugs.len());
    let mut file = Vec::new();
    writeln!(file, "code,title,creator,createdIn,tags")?;
    for (code, owner) in codes.iter().zip(owners) {
        let creator = owner.map_or("", |at| &slugs[at]);
        // Measured: 63 % UEFN, a third Creative, the rest unknown.
        let tool = match random.unit() {
            share if share < 0.63 => "uefn",
            share if share < 0.96 => "creative",
            _ => "",
        };
        let title = quoted(&title(&mut random));
        writeln!(
            file,
            "{code},{title},{creator},{tool},{}",
            tags(&mut random)
        )?;
    }
    write("islands.csv", &file)?;
    file.clear();
    writeln!(file, "slug,name,followers,following,lifetimePlays")?;
    for slug in &slugs {
        let shown = if random.unit() < 0.95 {
            quoted(&name(&mut random))
        } else {
            String::new()
        };
        let followers = count(at(&FOLLOWERS, random.unit()));
        let (following, plays) = (random.below(200), followers * 11 + random.next() % 1_000);
        let plays = if random.unit() < 0.8 {
            plays.to_string()
        } else {
            String::new()
        };
        // One creator in ten is known by the islands alone.
        if random.unit() < 0.9 {
            writeln!(file, "{slug},{shown},{followers},{following},{plays}")?;
        }
    }
    write("creators.csv", &file)?;
    Ok(codes.into_iter().collect())
}

/// Whose island each is, as a place among the creators: 95 % have one, 3 % of creators have none.
fn owners(random: &mut Random, islands: usize, creators: usize) -> Vec<Option<usize>> {
    let mut owners: Vec<Option<usize>> = Vec::with_capacity(islands);
    let owned = islands * 95 / 100;
    let holders = creators.saturating_sub(creators * 3 / 100).min(owned);
    // Nobody holds more than 0.5 % of the islands, unless there are too few creators for that.
    let most = (islands / 200).max(owned.div_ceil(holders.max(1))) as u64;
    let extra = |at_: usize| at(&HOLDING, (float(at_ as u64) + 0.5) / float(holders as u64)) - 1.0;
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
    // What the cap left over goes round.
    for left in 0..owned.saturating_sub(owners.len()) {
        owners.extend((holders > 0).then_some(Some(left % holders.max(1))));
    }
    owners.resize(islands, None);
    for last in (1..owners.len()).rev() {
        owners.swap(last, random.below(last + 1));
    }
    owners
}

/// A field of RFC 4180: in quotes where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
