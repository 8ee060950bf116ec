//! Pages of published lists compared with a naive implementation: filter all rows, sort, cut. There
//! are enough islands for every strategy of selection, from scanning rows to row sets.

use arbtest::arbitrary::{Result, Unstructured};

use super::creators::Creator;
use super::history_input::HistoryInput;
use super::history_payload;
use super::packed_day::PackedDay;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, DayRow, Island, Metrics};
use crate::model::{CreatedIn, CreatorSlug, IslandCode, SortField, SortOrder, fold};
use crate::request::{Filter, Grouping, ListQuery, Page};
use crate::snapshot::{Condition, History, SelectedRows, Storage};

const ISLANDS: u32 = 5000;
const CREATORS: u32 = 1500;

/// Returns a pseudo-random number.
fn drawn(seed: u32, purpose: u32) -> u32 {
    let mixed = (seed ^ purpose.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
    (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35) >> 8
}

/// Returns true for one row in `share`, different ones for each purpose.
fn one_in(share: u32, row: u32, purpose: u32) -> bool {
    drawn(row, purpose).is_multiple_of(share)
}

/// Words, tags and creators, with the share of rows that have them: one in so many.
const SHARES: [(&str, u32); 8] = [
    ("most", 1),
    ("half of it", 2),
    ("third", 3),
    ("many é", 12),
    ("some", 60),
    ("🔥 few", 400),
    ("rare ra ra", 1700),
    ("last", 5000),
];

fn island(row: u32) -> Island {
    let chosen = |purpose: u32| {
        let shares = SHARES.iter().zip(purpose..);
        shares
            .filter(move |((_, share), purpose)| one_in(*share, row, *purpose))
            .map(|((word, _), _)| *word)
    };
    let slug = match drawn(row, 40) % 10 {
        0 => None,
        1..=4 => Some("large".to_owned()),
        _ => Some(format!("c{}", drawn(row, 41) % CREATORS)),
    };
    Island {
        code: IslandCode::from_number(u64::from(row) * 7919).unwrap(),
        title: chosen(0).collect::<Vec<_>>().join(" ").into(),
        creator: slug.map(|slug| slug.parse::<CreatorSlug>().unwrap()),
        created_in: CreatedIn::ALL.get(drawn(row, 42) as usize % 3).copied(),
        tags: chosen(20).collect::<Vec<_>>().join("|").into(),
    }
}

/// Islands, and the rows of their only day.
struct World {
    catalogue: Catalogue,
    day: Vec<DayRow>,
}

fn world() -> World {
    let count = |row, field| (!one_in(9, row, field)).then(|| u64::from(drawn(row, field) % 700));
    let day = (0..ISLANDS).map(|row| DayRow {
        island: row,
        is_daily: true,
        metrics: Metrics::new(
            [50, 51, 52, 53, 54, 55].map(|field| count(row, field)),
            [None; 3],
        ),
    });
    World {
        catalogue: Catalogue::new((0..ISLANDS).map(island).collect(), Vec::new()),
        day: day.collect(),
    }
}

/// Draws none, a known text or an unknown one.
fn text(u: &mut Unstructured<'_>, known: &[&str]) -> Result<Option<String>> {
    let texts = [known, &["nobody's"]].concat();
    Ok(if u.ratio(2, 5)? {
        Some((*u.choose(&texts)?).to_owned())
    } else {
        None
    })
}

/// Draws none or a count of few, of half or of all islands, or of none.
fn count(u: &mut Unstructured<'_>) -> Result<Option<u64>> {
    let counts = [0, 1, 3, 17, 350, 690, 698, 699, 700, u64::MAX];
    Ok(if u.ratio(1, 5)? {
        Some(*u.choose(&counts)?)
    } else {
        None
    })
}

fn page(u: &mut Unstructured<'_>) -> Result<Page> {
    let offsets = [0, 1, 7, 49, 300, 1700, 2500, 4400, 4990, 5000, u64::MAX];
    Ok(Page {
        limit: u.int_in_range(1..=200)?,
        offset: *u.choose(&offsets)?,
    })
}

fn needle(u: &mut Unstructured<'_>) -> Result<Option<String>> {
    let needles = [
        "most",
        "m",
        "t",
        "t ",
        "é",
        " é",
        "of i",
        "half of it third many",
        "🔥",
        "🔥 few ra",
        "ra",
        "last",
        "x",
        "zzzz",
    ];
    text(u, &needles)
}

fn query(u: &mut Unstructured<'_>) -> Result<ListQuery> {
    let group = |grouping| move |name: String| Filter::Group(grouping, name.into());
    let tag = text(u, &SHARES.map(|(word, _)| word))?;
    let creator = text(u, &["large", "c7", "c8"])?;
    let tool = text(u, &CreatedIn::NAMES)?;
    let (least, most) = (*u.choose(&SortField::ALL)?, *u.choose(&SortField::ALL)?);
    let filters = [
        tag.map(group(Grouping::Tag)),
        creator.map(group(Grouping::Creator)),
        tool.map(group(Grouping::CreatedIn)),
        needle(u)?.map(|text| Filter::search(&text)),
        count(u)?.map(|count| Filter::AtLeast(least, count)),
        count(u)?.map(|count| Filter::AtMost(most, count)),
    ];
    Ok(ListQuery {
        filters: filters.into_iter().flatten().map(|one| ("", one)).collect(),
        sort: *u.choose(&SortField::ALL)?,
        order: *u.choose(&SortOrder::ALL)?,
        page: page(u)?,
    })
}

/// Returns whether an island meets a filter.
fn matches(world: &World, row: u32, filter: &Filter) -> bool {
    let island = &world.catalogue.islands[row as usize];
    let count = |field| world.day[row as usize].metrics.count(field);
    match filter {
        Filter::Group(Grouping::Tag, name) => island.tags().any(|tag| tag == name),
        Filter::Group(Grouping::Creator, name) => {
            let slug = island.creator.as_ref().map(CreatorSlug::as_str);
            slug == Some(name)
        }
        Filter::Group(Grouping::CreatedIn, name) => {
            island.created_in.map(CreatedIn::as_str) == Some(name)
        }
        Filter::Search { folded, .. } => fold(&island.title).contains(folded),
        Filter::AtLeast(field, least) => count(*field).is_some_and(|count| count >= *least),
        Filter::AtMost(field, most) => count(*field).is_some_and(|count| count <= *most),
    }
}

/// Returns the requested page of the matching rows in final order.
fn cut(rows: &[u32], page: Page) -> SelectedRows {
    let skip = usize::try_from(page.offset).unwrap();
    let on_page = rows.iter().skip(skip).take(page.limit as usize);
    SelectedRows {
        rows: on_page.copied().collect(),
        total: rows.len() as u64,
    }
}

/// Selects a page, and compares it with the naive one.
fn compared(world: &World, history: &History, query: &ListQuery) -> SelectedRows {
    let all = |row: &u32| {
        let mut filters = query.filters.iter();
        filters.all(|(_, filter)| matches(world, *row, filter))
    };
    let mut rows: Vec<u32> = (0..ISLANDS).filter(all).collect();
    let value = |row: &u32| world.day[*row as usize].metrics.count(query.sort);
    match query.order {
        SortOrder::Asc => rows.sort_by_key(|row| (value(row).is_none(), value(row))),
        SortOrder::Desc => rows.sort_by_key(|row| std::cmp::Reverse(value(row))),
    }
    let found = history.select_islands(query);
    assert_eq!(found, cut(&rows, query.page), "{query:?}");
    found
}

fn published(world: &World) -> History {
    let islands = world.catalogue.islands.len();
    let packed = PackedDay::new(UtcDay(20_777), &world.day, islands);
    let input = HistoryInput::new(&world.catalogue, vec![packed], UnixSeconds(0));
    let mut bytes = Vec::new();
    history_payload::write(&input, &mut bytes, &mut |_, _| {}).unwrap();
    History::open(Storage::Memory(bytes.into())).unwrap()
}

#[test]
fn pages_of_islands_match_a_naive_implementation() {
    let world = world();
    let history = published(&world);
    arbtest::arbtest(|u| {
        compared(&world, &history, &query(u)?);
        Ok(())
    })
    .budget_ms(1000);
}

/// Two searches that leave few of many rows, in an order by another field: the page is found by the keys of the matches,
/// and each cut through them is another one.
#[test]
fn all_pages_of_rare_matches_are_cut_from_one_order() {
    let world = world();
    let history = published(&world);
    let filters = [Filter::search("many"), Filter::search("third")];
    let mut query = ListQuery {
        filters: filters.map(|filter| ("", filter)).into(),
        ..ListQuery::default()
    };
    let least = Filter::AtLeast(SortField::Plays, 650);
    query.filters.push(("", least));
    for order in SortOrder::ALL {
        query.order = order;
        query.page = Page {
            offset: 0,
            limit: 100,
        };
        let all = compared(&world, &history, &query).rows;
        assert!((3..30).contains(&all.len()), "{}", all.len());
        for (offset, limit) in (0..=all.len()).flat_map(|at| (1..5).map(move |limit| (at, limit))) {
            query.page = Page {
                offset: offset as u64,
                limit,
            };
            let want = cut(&all, query.page);
            assert_eq!(history.select_islands(&query), want, "{query:?}");
        }
    }
}

/// The way to a page is chosen by these bounds, so that its cost depends on them.
#[test]
fn the_bound_of_matches_is_above_their_number_and_exact_but_for_searches() {
    let world = world();
    let history = published(&world);
    for filter in [
        Filter::Group(Grouping::Tag, "third".into()),
        Filter::Group(Grouping::Tag, "some".into()),
        Filter::AtLeast(SortField::Plays, 690),
        Filter::AtMost(SortField::Plays, 5),
        Filter::search("many"),
        Filter::search("few"),
    ] {
        let found = (0..ISLANDS).filter(|row| matches(&world, *row, &filter));
        let (found, is_search) = (found.count(), matches!(filter, Filter::Search { .. }));
        let query = ListQuery {
            filters: vec![("", filter)],
            ..ListQuery::default()
        };
        let conditions = Condition::all(&history, &query).unwrap();
        let bound = conditions[0].max_len();
        let is_right = if is_search {
            bound >= found
        } else {
            bound == found
        };
        assert!(is_right && found > 0, "{query:?}: {bound} for {found}");
    }
}

#[test]
fn a_filter_by_the_field_that_sorts_matches_in_both_directions() {
    let world = world();
    let history = published(&world);
    for (order, least, most) in [
        (SortOrder::Asc, 350, 350),
        (SortOrder::Desc, 350, 350),
        (SortOrder::Asc, 0, u64::MAX),
        (SortOrder::Desc, 0, u64::MAX),
    ] {
        for filter in [
            Filter::AtLeast(SortField::Plays, least),
            Filter::AtMost(SortField::Plays, most),
        ] {
            let query = ListQuery {
                filters: vec![("", filter)],
                sort: SortField::Plays,
                order,
                ..ListQuery::default()
            };
            let found = compared(&world, &history, &query);
            assert!(found.total > 1_000, "{query:?}");
        }
    }
}

#[test]
fn an_empty_search_is_no_filter() {
    let history = published(&world());
    let all = ListQuery::default();
    let empty = ListQuery {
        filters: vec![("q", Filter::search(""))],
        ..ListQuery::default()
    };
    let [found, want] = [&empty, &all].map(|query| history.select_islands(query));
    assert_eq!(found, want);
    let [found, want] = [&empty, &all].map(|query| history.select_creators(query));
    assert_eq!(found, want);
}

#[test]
fn pages_of_creators_match_a_naive_implementation() {
    let world = world();
    let history = published(&world);
    let input = HistoryInput::new(&world.catalogue, Vec::new(), UnixSeconds(0));
    let slugs: Vec<String> = Creator::collect(&input)
        .into_iter()
        .map(|creator| creator.slug.to_owned())
        .collect();
    // Without metrics, creators are in the order of slugs. Names are compared, each found
    // separately.
    let numbers: Vec<(String, u32)> = slugs
        .iter()
        .map(|slug| {
            (
                slug.clone(),
                u32::try_from(history.find_creator(slug).unwrap()).unwrap(),
            )
        })
        .collect();
    arbtest::arbtest(|u| {
        let q = text(u, &["c", "c1", "1", "large", "c77", "9", "arg"])?;
        let filter = q.as_deref().map(|text| ("q", Filter::search(text)));
        let query = ListQuery {
            filters: filter.into_iter().collect(),
            page: page(u)?,
            ..ListQuery::default()
        };
        let found = |(slug, _): &&(String, u32)| q.as_ref().is_none_or(|text| slug.contains(text));
        let mut rows: Vec<u32> = numbers
            .iter()
            .filter(found)
            .map(|(_, number)| *number)
            .collect();
        rows.sort_unstable();
        assert_eq!(
            history.select_creators(&query),
            cut(&rows, query.page),
            "{query:?}"
        );
        Ok(())
    })
    .budget_ms(1000);
}
