"""Prints islands, the peaks of one of them and the most common tags with pandas, and draws the peaks to peaks.png.

pip install 'pandas>=2.2' requests 'matplotlib>=3.6'; set ISLAND_METRICS_KEY to use a key.
A run costs two requests of the quota: one for page, one for peaks. The dumps cost none.
"""

import os
import sys

import pandas as pd
import requests
from matplotlib.figure import Figure

BASE = "http://127.0.0.1:8080"


def get(path, **params):
    key = os.environ.get("ISLAND_METRICS_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = requests.get(BASE + path, params=params, headers=headers, timeout=30)
    if not answer.ok:
        sys.exit(f"{answer.status_code}: {answer.json()['error']['message']}")
    return answer.json()


def page():
    """One row per island. The types are nullable, so that an unknown count does not turn the others into floats."""
    rows = get("/v1/islands", sort="uniquePlayers", limit=200)["islands"]
    frame = pd.json_normalize(rows).convert_dtypes()
    return frame.set_index("code")


def peaks(code):
    """The daily peaks of an island as a series by day. A day without a peak is a gap, not zero."""
    days = get(f"/v1/islands/{code}/ccu")["ccu"]
    frame = pd.DataFrame(days, columns=["date", "peakCCU"])
    series = frame.set_index(pd.to_datetime(frame["date"]))["peakCCU"]
    return series.asfreq("D").astype("Int64")


def plot(series, title, file):
    """Draws a curve to a PNG file. It has a gap where a day is missing; a marker shows a single day."""
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    axes.plot(series.index, series.astype("float"), marker=".")
    axes.set_title(title, parse_math=False)  # dollar signs are not a formula
    axes.set_ylabel("highest number of players")
    axes.set_ylim(bottom=0)
    figure.autofmt_xdate()
    figure.savefig(file)


def history():
    """All days of all islands from the dump, which does not count against the quota, by date and code."""
    frame = pd.read_csv(BASE + "/dumps/history.csv.gz", dtype={"code": "string"}, parse_dates=["date"])
    return frame.convert_dtypes().set_index(["date", "code"])


def dump():
    """All islands from the dump."""
    # An island may be called "NA". Only an empty field is null.
    frame = pd.read_csv(BASE + "/dumps/islands.csv.gz", dtype="string", keep_default_na=False, na_values=[""])
    frame["tags"] = frame["tags"].fillna("").str.split("|")
    return frame.set_index("code")


if __name__ == "__main__":
    islands = page()
    print(islands[["title", "peakCCU", "uniquePlayers", "retentionD1"]].head(10))
    series = peaks(islands.index[0])
    print(series.rolling("7D").mean().tail(7))
    plot(series, islands["title"].iloc[0], "peaks.png")
    print(dump().explode("tags")["tags"].value_counts().head(10))
    print(history().groupby("date")["minutesPlayed"].sum().tail(7))
