-- Registers a server with the service, and settles and grants credits of clients' days. The rules are described in
-- quota/lease/mod.rs. If the store may have lost data, a new marker begins: then nothing is granted for its day until
-- all servers have sent their counts.
-- KEYS: 1 the service, then the day of a client each
-- ARGV: 1 marker that the server knows, or "", 2 a new marker, 3 run id of the store, 4 tag seed of the server, 5 its
--       state directory, 6 its start, 7 its day in days since 1970, 8 "1" if all its counts were sent for this marker,
--       9 number of servers, 10 milliseconds after which a server without a call does not count, 11 "1" if it may have
--       counts of its day, 12 largest usual grant, 13 seconds until its day ends; then for each client, with spaces
--       between: credits that the server knows it has, requests that its state directory counted before the lease,
--       limit, or 0 if it is not known, day, credits that it needs at least, or "settle", or "return"
-- Answer: the marker; the tag seed; the last day that is not granted; 1 if this server has reserves on its day: the
--         first servers of a day have them, but no server on a day of which reserves were forgotten; from time to time
--         the memory of the store; figures for each client, if the marker is the known one: credits of the server,
--         credits of all servers, with those that are kept back for reserves, the limit that the first server named
local directory, today, servers, has_counts = ARGV[5], ARGV[7], tonumber(ARGV[9]), ARGV[11] == '1'

-- A sum of two such figures has 32 bits at the server.
local CREDITS_MAX, LIMIT_MAX, MILLIS_MAX = 2147483647, 4294967295, 2^46

-- No server writes as many fields, which would make each call slow.
local FIELDS_MAX = 10000

local function hash(key)
  mend(key, 'hash')
  if redis.call('HLEN', key) > FIELDS_MAX then
    redis.call('DEL', key)
  end
  return redis.call('HGETALL', key)
end

-- An integer from 0, below which all are exact, or nothing. No server writes NaN or infinity either.
local function integer(text, max)
  local number = tonumber(text)
  return number and number >= 0 and number <= max and number % 1 == 0 and number or nil
end

local stored = hash(KEYS[1])
local fields, sent, reserves = {}, {}, {}
local seconds, micros = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(micros / 1000)
local store_day = math.floor(seconds / 86400)
for at = 1, #stored, 2 do
  -- No server writes longer values.
  local name, value = stored[at], string.sub(stored[at + 1], 1, 96)
  fields[name] = value
  local called = #name <= 18 and string.find(name, '^s:%x+$') and integer(value, MILLIS_MAX)
  -- A state directory without a server for a day: if it comes back, it sends its counts as a new one does.
  if called and math.abs(now - called) <= 86400000 then
    sent[name] = called
  elseif string.find(name, '^r:%-?%d+$') and #name <= 18 and tonumber(string.sub(name, 3)) >= math.min(store_day, today) - 1 then
    local of_day = stored[at + 1]
    if #of_day > 17000 or string.gsub(of_day, string.rep('%x', 16) .. ' ', '') ~= '' then
      of_day = '-' -- what is no list of servers is taken for forgotten reserves
    end
    if of_day ~= stored[at + 1] then
      redis.call('HSET', KEYS[1], name, of_day)
    end
    reserves[string.sub(name, 3)] = of_day
  elseif name ~= 'marker' and name ~= 'run' and name ~= 'tag' and name ~= 'day' and name ~= 'ahead' and name ~= 'begun' and name ~= 'all' then
    redis.call('HDEL', KEYS[1], name)
  end
end

local own = 's:' .. directory
local function is_due()
  return not sent[own] or math.abs(now - sent[own]) >= tonumber(ARGV[10]) / 4
end

-- A node that was a replica since its start may have another copy of the data. All servers see the same: it is looked
-- up by the script, now and then. Zeros say nothing: an hour after its last replica has gone, a node has them again.
local start, replica = string.match(fields.run or '', '^(%x+):(%x*)$')
if is_due() or start ~= ARGV[3] then
  local found = string.match(redis.call('INFO', 'replication'), 'master_replid2:(%x+)') or ''
  replica = string.find(found, '[^0]') and found or replica
end
local run = ARGV[3] .. ':' .. (replica or '')
-- No clock is days ahead of this server's and of the store's.
local latest_day = math.max(store_day, tonumber(today)) + 1
local lost_day, ahead_day = integer(fields.day, latest_day), integer(fields.ahead, latest_day + 1) or 0
local marker, begun = fields.marker, integer(fields.begun, MILLIS_MAX)
if not is_hex(marker, 16) or fields.run ~= run or not lost_day or not begun then
  marker, lost_day, begun = ARGV[2], 0, now
  -- Clocks differ by less than an hour: another server may have counts of the next day.
  ahead_day = tonumber(ARGV[13]) < 3600 and today + 1 or 0
  for name in pairs(fields) do
    if string.find(name, '^[rs]:') then
      redis.call('HDEL', KEYS[1], name)
    end
  end
  sent, reserves = {}, {}
end
if not sent[own] and math.abs(now - begun) < 3600000 then
  -- The clock of this server is ahead: it has forgotten its counts of the days before.
  lost_day = math.max(lost_day, tonumber(today))
end
local is_due = is_due()
if is_due and (sent[own] or ARGV[8] == '1' and ARGV[1] == marker) then
  sent[own] = now
  redis.call('HSET', KEYS[1], own, string.format('%d', now))
end
if is_due then
  -- A clock of the store that is set forward ends figures of the day. It ends the marker too: they expire later.
  redis.call('EXPIREAT', KEYS[1], seconds + 3600)
end
-- A server that has ended may have been replaced by one that counts too.
local count = 0
for _, last in pairs(sent) do
  if math.abs(now - last) <= tonumber(ARGV[10]) then
    count = count + 1
  end
end
local has_all = fields.all == marker or count >= servers
-- The seed of a server with counts is the one by which others know its clients. It is final when all have sent theirs.
local seed, from = string.match(fields.tag or '', '^(%x+) (%a+)$')
if not seed or #seed ~= 16 or (from == 'new' and has_counts and not has_all and seed ~= ARGV[4]) then
  seed, from = ARGV[4], has_counts and 'used' or 'new'
end
local values = {marker = marker, run = run, tag = seed .. ' ' .. from, day = tostring(lost_day)}
values.begun, values.all = string.format('%d', begun), has_all and marker or ''
values.ahead = string.format('%d', ahead_day)
for name, value in pairs(values) do
  if fields[name] ~= value then
    redis.call('HSET', KEYS[1], name, value)
  end
end

local function has_reserve(day)
  return string.find(reserves[day] or '', directory, 1, true)
end

local function set_reserves(day, of_day)
  reserves[day] = of_day
  redis.call('HSET', KEYS[1], 'r:' .. day, of_day)
end

-- The servers with reserves on a day, and their number. This one is among them if it is one of the first.
local function reserves_of(day)
  local of_day = reserves[day] or ''
  local _, known = string.gsub(of_day, '%x+', '')
  if of_day ~= '-' and known < servers and not has_reserve(day) then
    set_reserves(day, of_day .. directory .. ' ')
    known = known + 1
  end
  return reserves[day] or '', known
end

if not has_reserve(today) and not has_all and has_counts and tonumber(today) <= lost_day then
  -- It may have used a reserve before the marker began.
  set_reserves(today, '-')
end
reserves_of(today)

-- Servers may have forgotten their counts of the days before.
local blocked = math.max(has_all and lost_day - 1 or math.max(lost_day, ahead_day), 0)
local figures = {}
local own_credits, counted_credits = directory .. ':' .. ARGV[6], directory .. ':0'
for at = 2, marker == ARGV[1] and #KEYS or 0 do
  local known, counted, limit, day, action = string.match(ARGV[at + 12], '^(%d+) (%d+) (%d+) (%-?%d+) (%w+)$')
  local of_day, with_reserves = reserves_of(day)
  known, counted, limit, day = tonumber(known), tonumber(counted), tonumber(limit), tonumber(day)
  local stored = hash(KEYS[at])
  local granted, counted_before, others, named, sums = 0, 0, 0, nil, {}
  for field = 1, #stored, 2 do
    -- No server writes anything else.
    local name, value = stored[field], integer(stored[field + 1], CREDITS_MAX) or 0
    if #name > 40 or #stored[field + 1] > 20 then
      redis.call('HDEL', KEYS[at], name) -- it would make each call slow
    elseif name == own_credits then
      granted = value
    elseif name == counted_credits then
      counted_before = value
    elseif name == 'limit' then
      named = integer(stored[field + 1], LIMIT_MAX)
    else
      local from = string.match(name, '^(%x+):%x+$')
      if from == directory then
        sums[from] = (sums[from] or 0) + value
      elseif from and value > 0 then
        sums[from] = value
        others = others + value
      end
    end
  end
  local earlier = sums[directory] or 0
  local changes = {}
  if counted_before + earlier < counted then
    counted_before = counted - earlier
    changes = {counted_credits, counted_before}
  end
  local received = math.max(granted, known)
  local total = others + earlier + counted_before + received
  -- The counts of a restart come without a limit.
  if of_day ~= '-' and (limit > 0 and limit or named or 0) >= 10 * servers then
    -- A credit is kept for each server that may have admitted one request that the store does not know yet.
    local reported = 0
    for from in string.gmatch(of_day, '%x+') do
      if from == directory or sums[from] then
        reported = reported + 1
      end
    end
    total = total + math.max(with_reserves, servers) - reported
  end
  if action == 'return' then
    total = total - received + known
    received = known
  elseif action ~= 'settle' and received == known and total < limit and day > blocked then
    local left = limit - total
    local usual = math.min(math.ceil(left / (4 * servers)), tonumber(ARGV[12]))
    local grant = math.min(left, math.max(usual, tonumber(action)))
    total = total + grant
    received = received + grant
  end
  if received ~= granted then
    changes[#changes + 1] = own_credits
    changes[#changes + 1] = received
  end
  if not named and limit > 0 then
    named = limit
    changes[#changes + 1] = 'limit'
    changes[#changes + 1] = limit
  end
  if #changes > 0 then
    redis.call('HSET', KEYS[at], unpack(changes))
    -- An hour after the end of the day by the clocks of servers, which differ by less. That of the store may differ by
    -- more: no figures may expire within their day.
    redis.call('EXPIREAT', KEYS[at], seconds + (day - today) * 86400 + ARGV[13] + 3600)
  end
  figures[#figures + 1] = received
  figures[#figures + 1] = math.min(total, CREDITS_MAX)
  figures[#figures + 1] = named or 0
end
local memory = is_due and redis.call('INFO', 'memory') or ''
return {marker, seed, blocked, has_reserve(today) and 1 or 0, memory, figures}
