"""Compares the frames of pandas_frames.py with the files of the dataset and the JSON of the API.

usage: frames.py FOLDER_OF_THE_RECIPE
"""

import sys

import matplotlib.image
import pandas as pd
from browsers import known_peaks
from harness import PUBLISHED, days, get, number, rows

[FOLDER] = sys.argv[1:]
sys.path.insert(0, FOLDER)
import pandas_frames as recipe


def plain(value):
    """The JSON value of a cell."""
    if isinstance(value, list):
        return value
    return None if pd.isna(value) else value


def curve(file):
    """Pixel columns of a picture that contain the blue of the curve, with the topmost such pixel of each."""
    picture = matplotlib.image.imread(file)
    blue = picture[:, :, 2] - picture[:, :, 0] > 0.3
    return {at: column.argmax() for at, column in enumerate(blue.T) if column.any()}


def runs(numbers):
    """The number of runs of consecutive numbers."""
    return sum(number - 1 not in numbers for number in numbers)


wanted = get(PUBLISHED, "/v1/islands?sort=uniquePlayers&limit=200")[1]["islands"]
frame = recipe.page().reset_index()
got = [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
assert got == wanted, "the page is not what the API says"
assert frame["peakCCU"].dtype == "Int64", frame["peakCCU"].dtype

# An island with a gap in its peaks; and one without peaks, if there is one.
peaks = {code: dict(held) for code, held in known_peaks().items()}
islands = rows("islands.csv")
gaps = [code for code, held in peaks.items() if len(held) > 10 and len(pd.date_range(min(held), max(held))) > len(held)]
never = [row["code"] for row in islands if row["code"] not in peaks]
assert gaps, "no island has a gap"
for code in gaps[:3] + never[:1]:
    series = recipe.peaks(code)
    got = {day.date(): int(value) for day, value in series.items() if not pd.isna(value)}
    assert got == peaks.get(code, {}), f"the peaks of {code} are not those of the dataset"
    if got:
        assert len(series) == len(pd.date_range(min(got), max(got))), f"{code} lacks days"
        # A title is plain text. This one is not a valid formula.
        recipe.plot(series, r"5$ \frac{$", f"{FOLDER}/{code}.png")
        drawn = curve(f"{FOLDER}/{code}.png")
        known = {day.toordinal(): peak for day, peak in peaks[code].items()}
        assert runs(drawn) == runs(known), f"{code} is drawn in {runs(drawn)} pieces; it has {runs(known)}"
        # The curve is highest on the day with the highest peak, and its ends are the first and the last day.
        across = (max(known, key=known.get) - min(known)) / (max(known) - min(known))
        place = min(drawn) + across * (max(drawn) - min(drawn))
        assert abs(min(drawn, key=drawn.get) - place) < 6, f"the peak of {code} is not at {place}"

frame = recipe.history().reset_index()
got = [(f"{date:%Y-%m-%d}", code, plain(peak), plain(share))
       for date, code, peak, share in zip(frame["date"], frame["code"], frame["peakCCU"], frame["retentionD7"])]
wanted = [(day, row["code"], number(row["peakCCU"]), number(row["retentionD7"]))
          for day in days() for row in rows(f"daily/{day}.csv")]
assert got == wanted, "the history is not the dataset's daily files"

frame = recipe.dump()
got = [{"code": code, **{name: plain(value) or "" for name, value in row.items()}, "tags": "|".join(filter(None, row["tags"]))}
       for code, row in zip(frame.index, frame.to_dict("records"))]
assert got == islands, "the dump is not the dataset's islands.csv"
