"""Prints islands, the peaks of one of them and the commonest tags as pandas has them, and draws the peaks to peaks.png.

pip install 'pandas>=2.2' requests 'matplotlib>=3.6'
"""

import sys

import pandas as pd
import requests
from matplotlib.figure import Figure

BASE = "http://127.0.0.1:8080"


def get(path, **params):
    answer = requests.get(BASE + path, params=params, timeout=30)
    if not answer.ok:
        sys.exit(f"{answer.status_code}: {answer.json()['error']['message']}")
    return answer.json()


def page():
    """One row an island. Nullable types: a count that is unknown must not turn the others into floats."""
    rows = get("/v1/islands", sort="uniquePlayers", limit=200)["islands"]
    frame = pd.json_normalize(rows).convert_dtypes()
    return frame.set_index("code")


def peaks(code):
    """The daily peaks of an island as a series by day. A day without a peak stays a gap: it is not zero."""
    days = get(f"/v1/islands/{code}/ccu")["ccu"]
    frame = pd.DataFrame(days, columns=["date", "peakCCU"])
    series = frame.set_index(pd.to_datetime(frame["date"]))["peakCCU"]
    return series.asfreq("D").astype("Int64")


def plot(series, title, file):
    """A curve in a PNG. It is broken where a day is missing; the points show a day that stands alone."""
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    axes.plot(series.index, series.astype("float"), marker=".")
    axes.set_title(title, parse_math=False)  # dollars in it are no formula
    axes.set_ylabel("most players at once")
    axes.set_ylim(bottom=0)
    figure.autofmt_xdate()
    figure.savefig(file)


def dump():
    """All islands from the dump, which costs no quota; a server that has none, as with the sample, answers 503."""
    # An island may be called "NA": only nothing is null.
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
