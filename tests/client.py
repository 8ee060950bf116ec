#!/usr/bin/env python3
"""Reads a running server with the client that was generated from its OpenAPI document.

    PYTHONPATH=DIR client.py BASE_URL

DIR holds the package `island_metrics_client` that openapi-python-client generated.
Prints one line and exits 0 when every answer has the declared types, else says what is wrong. That its values are
right is tested in tests/it, against an oracle.
"""

import datetime
import sys
import types
import typing

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


def fits(value, kind):
    """Whether a value, with all that is in it, has a type as the client's models declare it."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is list:
        return isinstance(value, list) and all(fits(item, parts[0]) for item in value)
    if hasattr(kind, "__attrs_attrs__") and isinstance(value, kind):
        members = typing.get_type_hints(kind, vars(models) | vars(sys.modules[kind.__module__]))
        # Members that the document does not declare.
        want(not getattr(value, "additional_properties", None), f"{kind.__name__} has {value.additional_properties}")
        members.pop("additional_properties", None)
        return all(fits(getattr(value, name), member) for name, member in members.items())
    if kind is float:
        kind = (int, float)
    # bool is an int in Python, not in JSON
    return kind is typing.Any or isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def call(endpoint, kind, **arguments):
    global calls
    name = f"{endpoint.__name__.rsplit('.', 1)[-1]}({arguments})"
    response = endpoint.sync_detailed(client=client, **arguments)
    want(response.status_code == 200, f"{name}: status {int(response.status_code)}: {response.content[:300]!r}")
    want(isinstance(response.parsed, kind) and fits(response.parsed, kind), f"{name}: {response.parsed!r} is no {kind}")
    for header in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
        want(response.headers.get(header, "").isdigit(), f"{name}: {header} is {response.headers.get(header)!r}")
    calls += 1
    return response.parsed


def pages(endpoint, kind, rows_of):
    """Every row of a list, page by page."""
    rows = []
    while True:
        page = call(endpoint, kind, limit=200, offset=len(rows))
        want((page.meta.limit, page.meta.offset) == (200, len(rows)), f"the page is {page.meta}")
        got = rows_of(page)
        rows += got
        want(page.meta.has_more == (len(rows) < page.meta.total), f"{len(rows)} rows, and the page is {page.meta}")
        if not page.meta.has_more:
            want(len(rows) == page.meta.total, f"{len(rows)} rows of {kind.__name__}; meta.total is {page.meta.total}")
            return rows
        want(len(got) == 200, f"{len(got)} rows of {kind.__name__} and more to come")


def pairs(rows, kinds, name):
    """Items without names, whose types the document declares by their order."""
    for row in rows:
        want(len(row) == len(kinds) and all(map(fits, row, kinds)), f"{name} has {row!r}")


def run():
    index = call(get_index, models.Index)
    want((index.version, index.license_) == ("v1", "CC-BY-4.0"), f"{index.version!r}, {index.license_!r}")
    health = call(get_health, models.Health)
    want(health.status == models.HealthStatus.OK, f"health is {health.status}: {health.payloads.to_dict()}")

    want(call(list_islands, models.IslandPage).meta.limit == 50, "the default limit is not 50")
    islands = pages(list_islands, models.IslandPage, lambda page: page.islands)
    want(0 < len(islands) == index.counts.islands, f"{len(islands)} islands; the index says {index.counts.islands}")
    call(list_islands, models.IslandPage, sort=models.SortField.PLAYS, order=models.SortOrder.ASC, limit=200)
    creators = pages(list_creators, models.CreatorPage, lambda page: page.creators)
    want(0 < len(creators) == index.counts.creators, f"{len(creators)} creators; the index says {index.counts.creators}")

    code, slug = islands[0].code, creators[0].slug
    island = call(get_island, models.IslandDetail, code=code).island
    want(island.code == code and island.series, f"asked for {code}, got {island.code}")
    history = call(get_island_ccu, models.CcuHistory, code=code)
    want(history.code == code and history.ccu, f"asked for {code}, got {history.code}")
    pairs(history.ccu, (str, int), "a history")
    want([datetime.date.fromisoformat(day) for day, _ in history.ccu], "a history has no days")
    creator = call(get_creator, models.CreatorDetail, slug=slug).creator
    want(creator.slug == slug and len(creator.islands) == creator.island_count, f"asked for {slug}, got {creator.slug}")

    want(call(get_live, models.Live).islands, "there are no players")
    pairs(call(get_intraday, models.Intraday).points, (int, int), "the curve")
    held = call(list_ranking_days, models.RankingDays)
    want(len(held.days) == index.counts.rankings, f"{len(held.days)} ranking days; the index says {index.counts.rankings}")
    for day in [*(day.isoformat() for day in held.days[:3]), "latest"]:
        want(call(get_ranking, models.Ranking, date=day).ranking, f"the ranking of {day} is empty")
    held = call(list_new_days, models.NewDays)
    want(len(held.days) == index.counts.new, f"{len(held.days)} new days; the index says {index.counts.new}")
    new = call(get_new_islands, models.NewIslands, date="latest")
    want(new.date == held.latest, f"the latest new islands are of {new.date}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: client.py BASE_URL")
    client = Client(base_url=sys.argv[1].rstrip("/"))
    try:
        run()
    except Exception as fault:  # noqa: BLE001 - whatever it is, one line that says after which call
        sys.exit(f"client: failed after {calls} calls: {type(fault).__name__}: {fault}")
    print(f"client: {calls} calls passed")
