"""DuckDB makes the JSON of every island's detail and history from a dataset's CSV files.

Usage: python rival.py DATASET OUT. Writes islands.json and ccu.json, an island a line.
"""
import sys

import duckdb

dataset, out = sys.argv[1:]
generated_at = "2026-11-21T12:05:00Z"

METRICS = {
    "peakCCU": "BIGINT",
    "uniquePlayers": "BIGINT",
    "minutesPlayed": "BIGINT",
    "favorites": "BIGINT",
    "plays": "BIGINT",
    "recommendations": "BIGINT",
    "averageMinutesPerPlayer": "DOUBLE",
    "retentionD1": "DOUBLE",
    "retentionD7": "DOUBLE",
}
ISLANDS = dict.fromkeys(["code", "title", "creator", "createdIn", "tags"], "VARCHAR")


def read(files, columns):
    # All types are given, so that DuckDB does not detect them.
    return (
        f"read_csv('{dataset}/{files}', header=true, auto_detect=false, filename=true, "
        f"quote='\"', escape='\"', columns={columns})"
    )


DAY = "substr(filename, length(filename) - 13, 10) AS date"
names = ", ".join(METRICS)
daily = f"SELECT code, {DAY}, {names} FROM {read('daily/*.csv', {'code': 'VARCHAR'} | METRICS)}"
ccu = f"SELECT code, {DAY}, peakCCU FROM {read('ccu/*.csv', {'code': 'VARCHAR', 'peakCCU': 'BIGINT'})}"
islands = f"SELECT code, title, creator, createdIn, tags FROM {read('islands.csv', ISLANDS)}"

connection = duckdb.connect()
connection.execute("SET preserve_insertion_order = false")
connection.execute(
    f"""
COPY (
  WITH daily AS ({daily}),
  series AS (
    SELECT code, list_sort(list(struct_pack(date, {names}))) AS series FROM daily GROUP BY code
  ),
  latest AS (SELECT * FROM daily WHERE date = (SELECT max(date) FROM daily)),
  islands AS ({islands})
  SELECT
    struct_pack(
      code := islands.code, title, creator, createdIn,
      tags := coalesce(string_split(tags, '|'), []),
      date := (SELECT max(date) FROM daily), {", ".join(f"{name} := latest.{name}" for name in METRICS)},
      series := coalesce(series, [])
    ) AS island,
    struct_pack(generatedAt := '{generated_at}') AS meta
  FROM islands
  LEFT JOIN series ON islands.code = series.code
  LEFT JOIN latest ON islands.code = latest.code
) TO '{out}/islands.json' (FORMAT json)
"""
)
connection.execute(
    f"""
COPY (
  WITH peaks AS (SELECT code, date, peakCCU FROM ({daily}) UNION ALL {ccu}),
  series AS (
    SELECT code, list_sort(list(struct_pack(date, peakCCU))) AS series
    FROM peaks WHERE peakCCU IS NOT NULL GROUP BY code
  ),
  islands AS ({islands})
  SELECT
    islands.code,
    coalesce(list_transform(series, lambda point: json_array(point.date, point.peakCCU)), []) AS ccu,
    struct_pack(generatedAt := '{generated_at}') AS meta
  FROM islands LEFT JOIN series ON islands.code = series.code
) TO '{out}/ccu.json' (FORMAT json)
"""
)
