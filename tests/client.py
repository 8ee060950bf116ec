#!/usr/bin/env python3
"""Reads a running server with the client that was generated from its OpenAPI document.

    PYTHONPATH=DIR client.py BASE_URL

DIR holds the package `island_metrics_client` that openapi-python-client generated.
Prints one line and exits 0 when every answer has the declared types, else says what is wrong.
"""

import datetime
import sys

from island_metrics_client import Client, models
from island_metrics_client.api.creators import get_creator, list_creators
from island_metrics_client.api.islands import get_island, get_island_ccu, list_islands
from island_metrics_client.api.live import get_intraday, get_live
from island_metrics_client.api.new import get_new_islands, list_new_days
from island_metrics_client.api.rankings import get_ranking, list_ranking_days
from island_metrics_client.api.service import get_health, get_index

calls = 0


def want(true, message):
    if not true:
        raise AssertionError(message)


def typed(value, kinds, name):
    # bool is an int in Python, not in JSON
    fits = isinstance(value, kinds) and not (isinstance(value, bool) and kinds is not bool)
    want(fits, f"{name} is {value!r}; want {kinds}")


def nullable(value, kinds, name):
    if value is not None:
        typed(value, kinds, name)


def call(endpoint, kind, **arguments):
    global calls
    name = f"{endpoint.__name__.rsplit('.', 1)[-1]}({arguments})"
    response = endpoint.sync_detailed(client=client, **arguments)
    want(response.status_code == 200, f"{name}: status {int(response.status_code)}: {response.content[:300]!r}")
    typed(response.parsed, kind, name)
    typed(response.parsed.meta.generated_at, datetime.datetime, f"{name}: meta.generatedAt")
    for header in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
        want(response.headers.get(header, "").isdigit(), f"{name}: {header} is {response.headers.get(header)!r}")
    extra = response.parsed.additional_properties
    want(not extra, f"{name}: members the document does not declare: {sorted(extra)}")
    calls += 1
    return response.parsed


COUNTS = ("peak_ccu", "unique_players", "minutes_played", "favorites", "plays", "recommendations")


def metrics(row, name):
    for member in COUNTS:
        nullable(getattr(row, member), int, f"{name}.{member}")
    for member in ("average_minutes_per_player", "retention_d1", "retention_d7"):
        nullable(getattr(row, member), (int, float), f"{name}.{member}")


def summary(row, name):
    typed(row.code, str, f"{name}.code")
    typed(row.title, str, f"{name}.title")
    nullable(row.creator, str, f"{name}.creator")
    nullable(row.created_in, models.CreatedIn, f"{name}.createdIn")
    typed(row.tags, list, f"{name}.tags")
    for tag in row.tags:
        typed(tag, str, f"{name}.tags")
    for member in ("first_seen", "last_seen", "date"):
        nullable(getattr(row, member), datetime.date, f"{name}.{member}")
    metrics(row, name)


def aggregate(row, name):
    typed(row.slug, str, f"{name}.slug")
    typed(row.island_count, int, f"{name}.islandCount")
    for member in COUNTS:
        nullable(getattr(row, member), int, f"{name}.{member}")


def pages(endpoint, kind, rows_of, key_of, check):
    """Every row of a list, page by page."""
    rows, limit = [], 200
    while True:
        page = call(endpoint, kind, limit=limit, offset=len(rows))
        got, meta = rows_of(page), page.meta
        typed(meta.total, int, "meta.total")
        typed(meta.has_more, bool, "meta.hasMore")
        want(meta.limit == limit, f"meta.limit is {meta.limit}; want {limit}")
        want(meta.offset == len(rows), f"meta.offset is {meta.offset}; want {len(rows)}")
        for row in got:
            check(row, f"{kind.__name__} row {len(rows)}")
            rows.append(row)
        want(meta.has_more == (len(rows) < meta.total), f"meta.hasMore is {meta.has_more} after {len(rows)} of {meta.total}")
        if not meta.has_more:
            break
        want(len(got) == limit, f"a page that is not the last has {len(got)} rows; want {limit}")
    want(len(rows) == meta.total, f"{kind.__name__}: {len(rows)} rows; meta.total is {meta.total}")
    keys = [key_of(row) for row in rows]
    want(len(set(keys)) == len(keys), f"{kind.__name__}: a row is on two pages")
    return rows


def descending(values, name):
    known = [value for value in values if value is not None]
    want(known == sorted(known, reverse=True), f"{name} is not in descending order")
    want(values[: len(known)] == known, f"{name}: nulls are not last")


def run():
    index = call(get_index, models.Index)
    typed(index.endpoints, list, "endpoints")
    want(index.version == "v1", f"version is {index.version!r}")
    want(index.license_ == "CC-BY-4.0", f"license is {index.license_!r}")

    health = call(get_health, models.Health)
    want(health.status == models.HealthStatus.OK, f"health is {health.status}: {health.payloads.to_dict()}")
    typed(health.last_publish, datetime.datetime, "lastPublish")

    page = call(list_islands, models.IslandPage)
    want(page.meta.limit == 50, f"the default limit is {page.meta.limit}; want 50")
    islands = pages(list_islands, models.IslandPage, lambda p: p.islands, lambda r: r.code, summary)
    want(len(islands) == index.counts.islands, f"{len(islands)} islands; the index says {index.counts.islands}")
    want(islands, "there are no islands")
    descending([row.peak_ccu for row in islands], "islands by peakCCU")
    rising = call(list_islands, models.IslandPage, sort=models.SortField.PLAYS, order=models.SortOrder.ASC, limit=200)
    known = [row.plays for row in rising.islands if row.plays is not None]
    want(known == sorted(known), "islands by plays ascending are not in order")

    creators = pages(list_creators, models.CreatorPage, lambda p: p.creators, lambda r: r.slug, aggregate)
    want(len(creators) == index.counts.creators, f"{len(creators)} creators; the index says {index.counts.creators}")
    want(creators, "there are no creators")
    descending([row.peak_ccu for row in creators], "creators by peakCCU")

    code = islands[0].code
    island = call(get_island, models.IslandDetail, code=code).island
    summary(island, "island")
    want(island.code == code, f"asked for {code}, got {island.code}")
    typed(island.series, list, "series")
    for point in island.series:
        typed(point.date, datetime.date, "series.date")
        metrics(point, "series")
    days = [point.date for point in island.series]
    want(days == sorted(set(days)), "the series is not oldest first")

    history = call(get_island_ccu, models.CcuHistory, code=code)
    want(history.code == code, f"asked for {code}, got {history.code}")
    days = []
    for pair in history.ccu:
        want(len(pair) == 2, f"a ccu point is {pair!r}")
        typed(pair[0], str, "ccu date")
        typed(pair[1], int, "ccu peak")
        days.append(datetime.date.fromisoformat(pair[0]))
    want(days == sorted(set(days)), "the ccu history is not oldest first")

    slug = creators[0].slug
    creator = call(get_creator, models.CreatorDetail, slug=slug).creator
    aggregate(creator, "creator")
    want(creator.slug == slug, f"asked for {slug}, got {creator.slug}")
    nullable(creator.profile.name, str, "profile.name")
    for member in ("followers", "following", "lifetime_plays"):
        nullable(getattr(creator.profile, member), int, f"profile.{member}")
    for row in creator.islands:
        summary(row, "creator.islands")
        want(row.creator == slug, f"{row.code} is by {row.creator!r}; want {slug!r}")
    want(len(creator.islands) == creator.island_count, f"{len(creator.islands)} islands; islandCount is {creator.island_count}")
    descending([row.peak_ccu for row in creator.islands], "creator.islands by peakCCU")

    live = call(get_live, models.Live)
    want(live.resolution_seconds == 600 and live.time % 600 == 0, f"live is of {live.time} by {live.resolution_seconds}")
    for row in live.islands:
        typed(row.code, str, "live code")
        typed(row.title, str, "live title")
        typed(row.players, int, "live players")
    descending([row.players for row in live.islands], "live by players")
    want(live.players == sum(row.players for row in live.islands), "live players is not the sum of the islands")

    curve = call(get_intraday, models.Intraday)
    want(curve.resolution_seconds == 600, f"intraday is by {curve.resolution_seconds}")
    want(len(curve.points) <= 144, f"intraday has {len(curve.points)} points")
    for pair in curve.points:
        want(len(pair) == 2, f"an intraday point is {pair!r}")
        for value in pair:
            typed(value, int, "intraday point")
    times = [pair[0] for pair in curve.points]
    want(times == sorted(set(times)), "intraday is not oldest first")

    held = call(list_ranking_days, models.RankingDays)
    want(held.days and held.days == sorted(set(held.days), reverse=True), "ranking days are not newest first")
    want(held.latest == held.days[0], f"latest is {held.latest}; the newest day is {held.days[0]}")
    want(len(held.days) == index.counts.rankings, f"{len(held.days)} ranking days; the index says {index.counts.rankings}")
    for day in [*(day.isoformat() for day in held.days[:3]), "latest"]:
        ranking = call(get_ranking, models.Ranking, date=day)
        at = held.latest if day == "latest" else datetime.date.fromisoformat(day)
        want(ranking.date == at, f"asked for {day}, got {ranking.date}")
        place = held.days.index(at) + 1
        before = held.days[place] if place < len(held.days) else None
        want(ranking.previous_date == before, f"previousDate of {at} is {ranking.previous_date}; want {before}")
        for rank, row in enumerate(ranking.ranking, 1):
            want(row.rank == rank, f"{at}: place {rank} has rank {row.rank}")
            typed(row.code, str, "ranking code")
            typed(row.title, str, "ranking title")
            nullable(row.creator, str, "ranking creator")
            nullable(row.created_in, models.CreatedIn, "ranking createdIn")
            typed(row.peak_ccu, int, "ranking peakCCU")
            nullable(row.previous_rank, int, "previousRank")
            delta = None if row.previous_rank is None else row.previous_rank - row.rank
            want(row.delta == delta, f"{at}: delta of {row.code} is {row.delta}; want {delta}")
        descending([row.peak_ccu for row in ranking.ranking], f"ranking of {at}")

    held = call(list_new_days, models.NewDays)
    want(held.days and held.days == sorted(set(held.days), reverse=True), "new days are not newest first")
    want(len(held.days) == index.counts.new, f"{len(held.days)} new days; the index says {index.counts.new}")
    new = call(get_new_islands, models.NewIslands, date="latest")
    want(new.date == held.latest == held.days[0], f"the latest new islands are of {new.date}")
    for row in new.islands:
        summary(row, "new islands")
        want(row.first_seen == new.date == row.date, f"{row.code} is new on {new.date}, first seen {row.first_seen}")
    descending([row.peak_ccu for row in new.islands], "new islands by peakCCU")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: client.py BASE_URL")
    client = Client(base_url=sys.argv[1].rstrip("/"))
    try:
        run()
    except Exception as fault:  # noqa: BLE001 - whatever it is, one line that says after which call
        sys.exit(f"client: failed after {calls} calls: {type(fault).__name__}: {fault}")
    print(f"client: {calls} calls passed")
