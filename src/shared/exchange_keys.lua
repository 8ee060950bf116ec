-- Exchanges the records of keys with a server: stores its records if it has received all changes, and answers with those
-- that have changed since a number. Servers alone read records, and decide which one of a key is newer.
-- KEYS: 1 hash of ids and records, 2 sorted set of ids by the number of their last change
-- ARGV: 1 generation that the server knows, with the history, 2 number up to which it has the changes, 3 name of a new
--       generation, 4 secret of sign-up, or nothing, 5 most records in the answer, 6... ids, with a record each
-- Answer: generation with the history, secret, 1 if the server had all changes, so that its records were stored, number
--         up to which records are answered, and those records: an id and its record, which is empty if none is stored.
--         If the generation is not the server's, the records are those from the beginning.
local GENERATION, SECRET = 'generation', 'secret'
local ID_BYTES, RECORD_BYTES_MAX = 10, 1024
-- Below 10^14, the texts of numbers are exact.
local NUMBER_MAX = 2^40

-- Nothing that is longer is read: others may write to the store too.
local function field(name, bytes_max)
  local bytes = redis.call('HSTRLEN', KEYS[1], name)
  return bytes > 0 and bytes <= bytes_max and redis.call('HGET', KEYS[1], name) or nil
end

-- The record of an id; '-' in place of one that is too long, which servers cannot read and store again; '' if there is none.
local function record(id)
  return field(id, RECORD_BYTES_MAX) or redis.call('HSTRLEN', KEYS[1], id) > 0 and '-' or ''
end

local function is_id(id)
  return #id == ID_BYTES and not string.find(id, '%W') and id ~= GENERATION
end

local generation, number

local function set_changed(id)
  number = number + 1
  redis.call('ZADD', KEYS[2], number, id)
end

-- Begins a generation: numbers are those of the records, and all servers put theirs again.
local function begin_generation()
  redis.call('DEL', KEYS[2])
  generation, number = ARGV[3], 0
  redis.call('HSET', KEYS[1], GENERATION, generation)
  local changes = {number, generation}
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    if is_id(id) then
      number = number + 1
      changes[2 * number + 1], changes[2 * number + 2] = number, id
    end
  end
  -- A call for each id takes longer, and Lua passes at most 8,000 values.
  for at = 1, #changes, 1000 do
    redis.call('ZADD', KEYS[2], unpack(changes, at, math.min(at + 999, #changes)))
  end
end

mend(KEYS[1], 'hash')
mend(KEYS[2], 'zset')
generation = field(GENERATION, #ARGV[3])
-- Numbers are those of one history of the data. A node that becomes a primary begins another one: it may lack changes,
-- and have others with their numbers.
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
local function is_known()
  return generation .. history == ARGV[1]
end
number = tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
local is_whole = is_hex(generation, #ARGV[3]) and redis.call('ZSCORE', KEYS[2], generation)
  and number and number < NUMBER_MAX and number % 1 == 0
-- A lower number than the server has: an older copy of the data.
if not is_whole or is_known() and number < tonumber(ARGV[2]) then
  begin_generation()
end
local secret = field(SECRET, 64)
if not is_hex(secret, 64) then
  secret = ARGV[4]
  if secret ~= '' then
    redis.call('HSET', KEYS[1], SECRET, secret)
  end
end
-- A server without all changes stores nothing: no record takes the place of a newer one, and a limit that the server has
-- checked holds for the records of all.
local is_stored = is_known() and number == tonumber(ARGV[2])
if is_stored then
  for at = 6, #ARGV, 2 do
    -- An id without a record is removed. No id is an empty text.
    redis.call(ARGV[at + 1] == '' and 'HDEL' or 'HSET', KEYS[1], ARGV[at], ARGV[at + 1])
    set_changed(ARGV[at])
  end
end

local from = is_known() and tonumber(ARGV[2]) or 0
local changed = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[5])
local records = {}
for at = 1, #changed, 2 do
  local id = changed[at]
  local score = tonumber(changed[at + 1])
  from = math.floor(score)
  if is_id(id) and score == from then
    table.insert(records, {id, record(id)})
  else
    redis.call('ZREM', KEYS[2], id)
    if is_id(id) and record(id) ~= '' then
      set_changed(id)
    end
    -- A place in the answer: a server that gets fewer than it asked for takes them for the last.
    table.insert(records, {'', ''})
  end
end
return {generation .. history, secret, is_stored and 1 or 0, string.format('%.0f', from), records}
