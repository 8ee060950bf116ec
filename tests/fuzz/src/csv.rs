//! A dataset written as CSV again, the plain way: every column, every value, quoted where RFC 4180
//! asks for it.

use std::fmt::Display;

use island_metrics::calendar::UtcDay;
use island_metrics::dataset::{Dataset, Day};
use island_metrics::model::{CreatedIn, CreatorSlug, SortField};

/// The files of a dataset, by name.
pub fn files(dataset: &Dataset) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("islands.csv".to_owned(), islands(dataset)),
        ("creators.csv".to_owned(), creators(dataset)),
    ];
    if let Some(points) = &dataset.platform {
        let rows = points
            .iter()
            .map(|(time, players)| [time.0.to_string(), players.to_string()]);
        files.push(("platform.csv".to_owned(), table("time,players", rows)));
    }
    for (date, day) in &dataset.days {
        files.extend(files_of_day(dataset, *date, day));
    }
    for step in &dataset.live {
        let rows = step.players.iter();
        let rows = rows.map(|(island, players)| [code(dataset, *island), players.to_string()]);
        files.push((
            format!("live/{}.csv", step.time.0),
            table("code,players", rows),
        ));
    }
    files
}

fn islands(dataset: &Dataset) -> Vec<u8> {
    let rows = dataset.islands.iter().map(|island| {
        [
            island.code.to_string(),
            island.title.to_string(),
            shown(island.creator.as_ref().map(CreatorSlug::as_str)),
            shown(island.created_in.map(CreatedIn::as_str)),
            island.tags.join("|"),
        ]
    });
    table("code,title,creator,createdIn,tags", rows)
}

fn creators(dataset: &Dataset) -> Vec<u8> {
    let rows = dataset.profiles.iter().map(|profile| {
        [
            profile.slug.as_str().to_owned(),
            shown(profile.name.as_ref()),
            shown(profile.followers),
            shown(profile.following),
            shown(profile.lifetime_plays),
        ]
    });
    table("slug,name,followers,following,lifetimePlays", rows)
}

fn files_of_day(dataset: &Dataset, date: UtcDay, day: &Day) -> Vec<(String, Vec<u8>)> {
    let daily = day.daily.iter().map(|row| {
        let mut fields = vec![code(dataset, row.island)];
        fields.extend(SortField::ALL.map(|field| shown(row.metrics.count(field))));
        fields.push(shown(row.metrics.average_minutes_per_player()));
        fields.push(shown(row.metrics.retention_d1()));
        fields.push(shown(row.metrics.retention_d7()));
        fields
    });
    let header = "code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,\
        averageMinutesPerPlayer,retentionD1,retentionD7";
    let ccu = day
        .ccu
        .iter()
        .map(|row| [code(dataset, row.island), shown(row.peak_ccu)]);
    vec![
        (format!("daily/{date}.csv"), table(header, daily)),
        (format!("ccu/{date}.csv"), table("code,peakCCU", ccu)),
    ]
}

fn code(dataset: &Dataset, island: u32) -> String {
    dataset.islands[island as usize].code.to_string()
}

fn shown(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn table(header: &str, rows: impl Iterator<Item = impl AsRef<[String]>>) -> Vec<u8> {
    let mut text = format!("{header}\n");
    for row in rows {
        let fields = row.as_ref().iter().map(|field| quoted(field));
        text.push_str(&fields.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text.into_bytes()
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
