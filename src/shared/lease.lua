-- Settles and grants credits of clients' days. The rules are described in quota/lease/mod.rs.
-- KEYS: 1 the service, then the day of a client each
-- ARGV: 1 marker that the server has found when it joined, 2 its state directory, 3 its start,
--       4 number of servers, 5 largest usual grant; then for each client: 1 credits that the server knows it has, 2 requests that its state directory counted
--       before its start, 3 limit, or 0 if it is not known, 4 day in days since 1970, 5 credits that it needs at
--       least, or "settle", or "return"
-- Answer: the last day that is not granted; then for each client: credits of the server, credits of all servers,
--         the limit that the first server named. Nothing if the store has lost data since the server joined.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number <= 4294967295 and number % 1 == 0 then
    return number
  end
  return 0 -- no server writes anything else
end

local service = redis.call('HGETALL', KEYS[1])
local marker, blocked, all = nil, 0, nil
for at = 1, #service, 2 do
  if service[at] == 'marker' then
    marker = service[at + 1]
  elseif service[at] == 'day' then
    blocked = whole(service[at + 1])
  elseif service[at] == 'all' then
    all = service[at + 1]
  end
end
if all == marker then
  -- Those of the days before may be forgotten.
  blocked = math.max(blocked - 1, 0)
end
if marker ~= ARGV[1] then
  return {}
end

local answer = {blocked}
local of_directory = ARGV[2] .. ':'
local own, before = of_directory .. ARGV[3], of_directory .. '0'
for at = 2, #KEYS do
  local first = 6 + 5 * (at - 2)
  local known, counted, limit = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local day, action = tonumber(ARGV[first + 3]), ARGV[first + 4]
  local stored = redis.pcall('HGETALL', KEYS[at])
  if stored.err then
    -- No server writes another type: the key is treated as lost data. It would fail all calls of its client.
    if not string.find(stored.err, 'WRONGTYPE') then
      return stored
    end
    redis.call('DEL', KEYS[at])
    stored = {}
  end
  local granted, counted_before, earlier, others, named = 0, 0, 0, 0, nil
  for field = 1, #stored, 2 do
    local name, value = stored[field], whole(stored[field + 1])
    if #stored[field + 1] > 20 then
      redis.call('HDEL', KEYS[at], name) -- it would make each call slow
    elseif name == own then
      granted = value
    elseif name == before then
      counted_before = value
    elseif name == 'limit' then
      named = value
    elseif string.sub(name, 1, #of_directory) == of_directory then
      earlier = earlier + value
    elseif string.find(name, '^%x+:%x+$') then
      others = others + value
    end
  end
  local changes = {}
  if counted_before + earlier < counted then
    counted_before = counted - earlier
    changes = {before, counted_before}
  end
  local received = math.max(granted, known)
  local total = others + earlier + counted_before + received
  if action == 'return' then
    total = total - received + known
    received = known
  elseif action ~= 'settle' and received == known and total < limit and day > blocked then
    local left = limit - total
    local usual = math.max(1, math.min(math.floor(left / (4 * tonumber(ARGV[4]))), tonumber(ARGV[5])))
    local grant = math.min(left, math.max(usual, tonumber(action)))
    total = total + grant
    received = received + grant
  end
  if received ~= granted then
    changes[#changes + 1] = own
    changes[#changes + 1] = received
  end
  if not named and limit > 0 then
    named = limit
    changes[#changes + 1] = 'limit'
    changes[#changes + 1] = limit
  end
  if #changes > 0 then
    redis.call('HSET', KEYS[at], unpack(changes))
    -- An hour after the end of the day: clocks differ by less.
    redis.call('EXPIREAT', KEYS[at], (day + 1) * 86400 + 3600)
  end
  answer[#answer + 1] = received
  answer[#answer + 1] = math.min(total, 4294967295)
  answer[#answer + 1] = named or 0
end
return answer
