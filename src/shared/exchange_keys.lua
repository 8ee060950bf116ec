-- Exchanges the records of keys with a server: stores those that are newer than the stored ones, and answers with
-- those that have changed since a number.
-- KEYS: 1 hash of ids and records, 2 sorted set of ids by the number of their last change
-- ARGV: 1 generation that the server knows, with the history, 2 number up to which it has the changes, 3 name of a new
--       generation, 4 secret of sign-up, or nothing, 5 "1" if the record is to be stored only if the server has all
--       changes, 6 most records in the answer, 7... records; an id alone removes a record that cannot be read
-- Answer: generation with the history, secret, 1 if such a record was stored, number up to which records are answered,
--         and those records: an id and its record, which is empty if no valid one is stored. If the generation is not
--         the server's, the records are those from the beginning.
local GENERATION, SECRET = 'generation', 'secret'
local ID_BYTES, RECORD_BYTES_MAX = 10, 1024
-- Below 10^14, the texts of numbers are exact.
local TIME_MAX, NUMBER_MAX, IDS_MAX = 2^40, 2^40, 2^20

-- Nothing that is longer is read: others may write to the store too.
local function field(key, name, bytes_max)
  local bytes = redis.call('HSTRLEN', key, name)
  return bytes > 0 and bytes <= bytes_max and redis.call('HGET', key, name) or nil
end

local function is_time(time)
  return type(time) == 'number' and integer(time, TIME_MAX)
end

local function is_id(id)
  return #id == ID_BYTES and not string.find(id, '%W')
end

local function parsed(text)
  local is_json, record = pcall(cjson.decode, text or '')
  local is_valid = is_json and type(record) == 'table' and is_time(record.changed)
    and (record.revoked == cjson.null or is_time(record.revoked)) and type(record.address) == 'string'
  return is_valid and record or nil
end

local function stored(id)
  return parsed(field(KEYS[1], id, RECORD_BYTES_MAX))
end

local generation, number

local function set_changed(id)
  number = number + 1
  redis.call('ZADD', KEYS[2], number, id)
end

-- Begins a generation: numbers are those of the records, and all servers put theirs again.
local function begin_generation()
  redis.call('DEL', KEYS[2])
  if redis.call('HLEN', KEYS[1]) > IDS_MAX then
    redis.call('DEL', KEYS[1])
  end
  generation, number = ARGV[3], 0
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    local record = is_id(id) and stored(id)
    if record and record.id == id then
      set_changed(id)
    end
  end
  redis.call('HSET', KEYS[1], GENERATION, generation)
  redis.call('ZADD', KEYS[2], 0, generation)
end

local function is_newer(record, known)
  local revoked = record.revoked == cjson.null and -1 or record.revoked
  local known_revoked = known.revoked == cjson.null and -1 or known.revoked
  return record.changed > known.changed or record.changed == known.changed and revoked > known_revoked
end

local function is_same_key(record, known)
  return record.id == known.id and record.sha256 == known.sha256 and record.tier == known.tier
    and record.address == known.address and record.issued == known.issued
end

local function put(text)
  local record = parsed(text)
  local known, last = stored(record.id), tonumber(redis.call('ZSCORE', KEYS[2], record.id))
  -- Without a number above 0, no server would get it.
  if not known or not last or last <= 0 or not is_same_key(record, known) or is_newer(record, known) then
    redis.call('HSET', KEYS[1], record.id, text)
    set_changed(record.id)
  end
end

local function remove(id)
  redis.call('HDEL', KEYS[1], id)
  set_changed(id)
end

mend(KEYS[1], 'hash')
mend(KEYS[2], 'zset')
generation = field(KEYS[1], GENERATION, #ARGV[3])
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
-- Each call writes: a node that has become a replica refuses it, and does not answer with an old state.
redis.call('HSET', KEYS[1], GENERATION, generation)
local secret = field(KEYS[1], SECRET, 64)
if not is_hex(secret, 64) then
  secret = ARGV[4]
  if secret ~= '' then
    redis.call('HSET', KEYS[1], SECRET, secret)
  end
end
-- A limit that the server has checked holds for its records: no other server may have changed any since.
local is_added = ARGV[5] == '1' and is_known() and number == tonumber(ARGV[2])
if ARGV[5] == '0' or is_added then
  for at = 7, #ARGV do
    if #ARGV[at] == ID_BYTES then
      remove(ARGV[at])
    else
      put(ARGV[at])
    end
  end
end

local from = is_known() and tonumber(ARGV[2]) or 0
local changed = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[6])
local records = {}
for at = 1, #changed, 2 do
  local id = changed[at]
  local score = tonumber(changed[at + 1])
  from = math.floor(score)
  if is_id(id) and score == from then
    local text = field(KEYS[1], id, RECORD_BYTES_MAX)
    if not parsed(text) then
      -- Every server that knows the record puts it again.
      if redis.call('HDEL', KEYS[1], id) == 1 then
        set_changed(id)
      end
      text = ''
    end
    table.insert(records, {id, text})
  else
    redis.call('ZREM', KEYS[2], id)
    if is_id(id) and stored(id) then
      set_changed(id)
    end
    -- A place in the answer: a server that gets fewer than it asked for takes them for the last.
    table.insert(records, {'', ''})
  end
end
return {generation .. history, secret, is_added and 1 or 0, string.format('%.0f', from), records}
