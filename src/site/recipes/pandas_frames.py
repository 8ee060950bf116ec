"""Three ways into pandas: a page of islands, the peaks of one island over time, a dump.

pip install pandas requests
"""

import pandas as pd
import requests

BASE = "http://127.0.0.1:8080"


def get(path, **params):
    answer = requests.get(BASE + path, params=params, timeout=30)
    answer.raise_for_status()
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


def dump():
    """All islands from the dump, which costs no quota. An island may be called "NA": only nothing is null."""
    frame = pd.read_csv(BASE + "/dumps/islands.csv.gz", dtype="string", keep_default_na=False, na_values=[""])
    frame["tags"] = frame["tags"].fillna("").str.split("|")
    return frame.set_index("code")


if __name__ == "__main__":
    islands = page()
    print(islands[["title", "peakCCU", "uniquePlayers", "retentionD1"]].head(10))
    print(peaks(islands.index[0]).rolling("7D").mean().tail(7))
    print(dump().explode("tags")["tags"].value_counts().head(10))
