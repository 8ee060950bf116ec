-- Settles and grants credits of clients' days. The rules are described in quota/lease/mod.rs.
-- KEYS: 1 the service, then the day of a client each
-- ARGV: 1 marker that the server has found when it joined, 2 its state directory, 3 its start,
--       4 number of servers, 5 largest usual grant; then for each client, with spaces between: credits that the server
--       knows it has, requests that its state directory counted before the lease, limit, or 0 if it is not known, day
--       in days since 1970, credits that it needs at least, or "settle", or "return"
-- Answer: figures: the last day that is not granted; then for each client: credits of the server, credits of all
--         servers, with those that are kept back for reserves, the limit that the first server named. There are none
--         if the store has lost data since the server joined.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number <= 4294967295 and number % 1 == 0 then
    return number
  end
  return 0 -- no server writes anything else
end

local service = hash(KEYS[1])
local marker, blocked, all, reserves = nil, 0, nil, {}
for at = 1, #service, 2 do
  if service[at] == 'marker' then
    marker = service[at + 1]
  elseif service[at] == 'day' then
    blocked = whole(service[at + 1])
  elseif service[at] == 'all' then
    all = service[at + 1]
  elseif string.sub(service[at], 1, 2) == 'r:' then
    reserves[string.sub(service[at], 3)] = service[at + 1]
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
local directory, servers = ARGV[2], tonumber(ARGV[4])
local own, before = directory .. ':' .. ARGV[3], directory .. ':0'
for at = 2, #KEYS do
  local known, counted, limit, day, action = string.match(ARGV[at + 4], '^(%d+) (%d+) (%d+) (%-?%d+) (%w+)$')
  local of_day = reserves[day] or ''
  local _, count = string.gsub(of_day, '%x+', '')
  if of_day ~= '-' and count < servers and not string.find(of_day, directory, 1, true) then
    -- It will join on this day.
    of_day = of_day .. directory .. ' '
    reserves[day] = of_day
    redis.call('HSET', KEYS[1], 'r:' .. day, of_day)
    count = count + 1
  end
  known, counted, limit, day = tonumber(known), tonumber(counted), tonumber(limit), tonumber(day)
  local stored = hash(KEYS[at])
  local granted, counted_before, others, named, sums = 0, 0, 0, nil, {}
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
    changes = {before, counted_before}
  end
  local received = math.max(granted, known)
  local total = others + earlier + counted_before + received
  if of_day ~= '-' and limit >= 10 * servers then
    -- A credit is kept for each server that may have admitted one request that the store does not know yet.
    local reported = 0
    for from in string.gmatch(of_day, '%x+') do
      if from == directory or sums[from] then
        reported = reported + 1
      end
    end
    total = total + math.max(count, servers) - reported
  end
  if action == 'return' then
    total = total - received + known
    received = known
  elseif action ~= 'settle' and received == known and total < limit and day > blocked then
    local left = limit - total
    local usual = math.min(math.ceil(left / (4 * servers)), tonumber(ARGV[5]))
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
