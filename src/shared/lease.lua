-- Grants credits of a client's day to a server. The rule is described in quota/lease/mod.rs.
-- KEYS[1]: the client and the day
-- ARGV: 1 field of the server, 2 credits that it knows it has, 3 requests that it counted before it started,
--       4 limit, 5 number of servers, 6 largest usual grant, 7 expiry in Unix seconds,
--       8 credits that it needs at least, or "settle", or "return"
-- Answer: credits of the server, credits of all servers, the limit that the first server named
local stored = redis.pcall('HMGET', KEYS[1], ARGV[1], 'total', 'limit')
if stored.err then
  -- No server writes another type: the key is treated as lost data. It would fail all calls of its client.
  if not string.find(stored.err, 'WRONGTYPE') then
    return stored
  end
  redis.call('DEL', KEYS[1])
  stored = {}
end
local granted, total = tonumber(stored[1]) or 0, tonumber(stored[2]) or 0
local known, counted, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local before_granted, before_total = stored[1] and granted, stored[2] and total
if total < counted then
  total = counted
end
if granted < known then
  total = total + known - granted
  granted = known
end
if ARGV[8] == 'return' then
  total = total - (granted - known)
  granted = known
elseif ARGV[8] ~= 'settle' and granted == known and total < limit then
  local left = limit - total
  local usual = math.max(1, math.min(math.floor(left / (4 * tonumber(ARGV[5]))), tonumber(ARGV[6])))
  local grant = math.min(left, math.max(usual, tonumber(ARGV[8])))
  total = total + grant
  granted = granted + grant
end
if before_granted ~= granted or before_total ~= total then
  redis.call('HSET', KEYS[1], ARGV[1], granted, 'total', total, 'limit', stored[3] or limit)
  redis.call('EXPIREAT', KEYS[1], ARGV[7])
end
return {granted, total, tonumber(stored[3]) or limit}
