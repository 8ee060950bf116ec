-- Prints three tables from the dumps: the creators with the highest peaks, the share of players who come back, by tool,
-- and the tags with the most minutes played. Needs DuckDB 1.2 or newer and curl. Dumps need no key and do not count
-- against the quota.
--
--   curl --fail --remote-name http://127.0.0.1:8080/dumps/islands.csv.gz
--   curl --fail --remote-name http://127.0.0.1:8080/dumps/history.csv.gz
--
-- then: duckdb < dump.sql

-- The types are given: DuckDB guesses text for a column that is empty in the first rows.
create table islands as
from read_csv('islands.csv.gz', header = true, delim = ',', quote = '"', escape = '"', columns = {
    'code': 'varchar', 'title': 'varchar', 'creator': 'varchar', 'createdIn': 'varchar', 'tags': 'varchar'});

create table daily as
from read_csv('history.csv.gz', header = true, delim = ',', quote = '"', escape = '"', columns = {
    'date': 'date', 'code': 'varchar', 'peakCCU': 'bigint', 'uniquePlayers': 'bigint', 'minutesPlayed': 'bigint',
    'favorites': 'bigint', 'plays': 'bigint', 'recommendations': 'bigint',
    'averageMinutesPerPlayer': 'double', 'retentionD1': 'double', 'retentionD7': 'double'});

-- Creators by the highest peak of any of their islands.
select creator, max(peakCCU) as peak, count(distinct code) as islands
from islands join daily using (code)
where creator is not null
group by creator
having peak is not null
order by peak desc, creator
limit 10;

-- Share of players who came back on the next day, in percent, by the tool that the island was made with. Weighted by
-- players, since the share of an island with six players says little.
select createdIn as tool,
    round(100 * sum(retentionD1 * uniquePlayers) / sum(uniquePlayers), 2) as back_next_day,
    sum(uniquePlayers)::bigint as players
from islands join daily using (code)
where retentionD1 is not null and uniquePlayers is not null and createdIn is not null
group by tool
order by tool;

-- Tags by minutes played on the newest day. An island with three tags counts three times.
select tag, sum(minutesPlayed)::bigint as minutes
from (select code, unnest(string_split(tags, '|')) as tag from islands) join daily using (code)
where date = (select max(date) from daily) and minutesPlayed is not null
group by tag
order by minutes desc, tag
limit 10;
