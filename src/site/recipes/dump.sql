-- Prints three tables from the dumps: who has the largest islands, which tool's players come back, what they play.
-- Needs DuckDB 1.0 or newer, curl 7.73 or newer, and jq. Get the files first; dumps need no key and spend no quota. A
-- server that has none, as with the sample it starts with, answers 503.
--
--   curl --fail --remote-name http://127.0.0.1:8080/dumps/islands.csv.gz
--   curl --fail --remote-name http://127.0.0.1:8080/dumps/index.json
--   jq --raw-output '.files[].file | select(test("^daily/.*csv.gz$"))' index.json | tail -n 14 >days
--   sed 's|^|http://127.0.0.1:8080/dumps/|' days | xargs curl --fail --create-dirs --output-dir daily --remote-name-all
--
-- then: duckdb < dump.sql

-- Types by hand: a column that is empty in the first rows would be guessed as text.
create table islands as
from read_csv('islands.csv.gz', header = true, delim = ',', quote = '"', escape = '"', columns = {
    'code': 'varchar', 'title': 'varchar', 'creator': 'varchar', 'createdIn': 'varchar', 'tags': 'varchar'});

create table daily as
select * exclude (filename), cast(regexp_extract(filename, '\d{4}-\d\d-\d\d') as date) as day
from read_csv('daily/*.csv.gz', header = true, delim = ',', quote = '"', escape = '"', filename = true, columns = {
    'code': 'varchar', 'peakCCU': 'bigint', 'uniquePlayers': 'bigint', 'minutesPlayed': 'bigint',
    'favorites': 'bigint', 'plays': 'bigint', 'recommendations': 'bigint',
    'averageMinutesPerPlayer': 'double', 'retentionD1': 'double', 'retentionD7': 'double'});

-- Creators by the highest peak of any island of theirs.
select creator, max(peakCCU) as peak, count(distinct code) as islands
from islands join daily using (code)
where creator is not null
group by creator
having peak is not null
order by peak desc, creator
limit 10;

-- Of a hundred players who came on a day, how many came back the next, by the tool the island was made with.
-- Weighted by players: an island of six says little.
select createdIn as tool,
    round(100 * sum(retentionD1 * uniquePlayers) / sum(uniquePlayers), 2) as back_next_day,
    sum(uniquePlayers)::bigint as players
from islands join daily using (code)
where retentionD1 is not null and uniquePlayers is not null and createdIn is not null
group by tool
order by tool;

-- Tags by minutes played on the newest day. An island with three tags counts for each.
select tag, sum(minutesPlayed)::bigint as minutes
from (select code, unnest(string_split(tags, '|')) as tag from islands) join daily using (code)
where day = (select max(day) from daily) and minutesPlayed is not null
group by tag
order by minutes desc, tag
limit 10;
