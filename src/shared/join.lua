-- Registers a server with the service. If the store may have lost data, a new marker begins: then nothing is granted
-- for its day until all servers have sent their counts.
-- KEYS: 1 the service
-- ARGV: 1 a new marker, 2 run id of the store, 3 tag seed of the server, 4 its state directory, 5 its day in days since
--       1970, 6 marker for which its counts were sent, or "", 7 number of servers, 8 milliseconds after which a server
--       without a heartbeat does not count, 9 "1" if it may have counts of its day
-- Answer: the marker, the tag seed, the last day that is not granted, 1 if this server has reserves on its day: the first
--         servers of a day have them, but no server on a day of which reserves were forgotten; the memory of the store
local stored = hash(KEYS[1])
local fields, sent, reserves = {}, {}, ''
local seconds, micros = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(micros / 1000)
for at = 1, #stored, 2 do
  -- No server writes longer values.
  local name, value = stored[at], string.sub(stored[at + 1], 1, 64)
  fields[name] = value
  if #name <= 18 and string.find(name, '^s:%x+$') and tonumber(value) then
    sent[name] = tonumber(value)
  elseif string.find(name, '^r:%-?%d+$') and #name <= 18 and #stored[at + 1] <= 17000
    and tonumber(string.sub(name, 3)) >= math.floor(seconds / 86400) - 1 then
    if name == 'r:' .. ARGV[5] then
      reserves = stored[at + 1]
    end
  elseif name ~= 'marker' and name ~= 'run' and name ~= 'tag' and name ~= 'day' and name ~= 'begun' and name ~= 'all' then
    redis.call('HDEL', KEYS[1], name)
  end
end

local own = 's:' .. ARGV[4]
local marker, day, begun = fields.marker, tonumber(fields.day), tonumber(fields.begun)
if not marker or #marker ~= 16 or fields.run ~= ARGV[2] or not day or not begun then
  marker, day, begun = ARGV[1], 0, now
  for name in pairs(fields) do
    if string.find(name, '^[rs]:') then
      redis.call('HDEL', KEYS[1], name)
    end
  end
  sent, reserves = {}, ''
end
if not sent[own] then
  if math.abs(now - begun) < 3600000 then
    -- The clock of this server is ahead: it has forgotten its counts of the days before.
    day = math.max(day, tonumber(ARGV[5]))
  end
end
if sent[own] or ARGV[6] == marker then
  sent[own] = now
  redis.call('HSET', KEYS[1], own, string.format('%d', now))
end
-- A server that has ended may have been replaced by one that counts too.
local count = 0
for _, heartbeat in pairs(sent) do
  if math.abs(now - heartbeat) <= tonumber(ARGV[8]) then
    count = count + 1
  end
end
local has_all = fields.all == marker or count >= tonumber(ARGV[7])
-- The seed of a server with counts is the one by which others know its clients.
local seed, from = string.match(fields.tag or '', '^(%x+) (%a+)$')
local has_counts = ARGV[9] == '1'
if not seed or #seed ~= 16 or (from == 'new' and has_counts and seed ~= ARGV[3]) then
  seed, from = ARGV[3], has_counts and 'used' or 'new'
end
local values = {marker = marker, run = ARGV[2], tag = seed .. ' ' .. from, day = tostring(day)}
values.begun, values.all = string.format('%d', begun), has_all and marker or ''
for name, value in pairs(values) do
  if fields[name] ~= value then
    redis.call('HSET', KEYS[1], name, value)
  end
end
local _, servers = string.gsub(reserves, '%x+', '')
local has_reserve = string.find(reserves, ARGV[4], 1, true)
if not has_reserve and not has_all and has_counts and tonumber(ARGV[5]) <= day then
  -- It may have used a reserve before the marker began.
  redis.call('HSET', KEYS[1], 'r:' .. ARGV[5], '-')
elseif not has_reserve and reserves ~= '-' and servers < tonumber(ARGV[7]) then
  redis.call('HSET', KEYS[1], 'r:' .. ARGV[5], reserves .. ARGV[4] .. ' ')
  has_reserve = true
end
return {marker, seed, math.max(day - (has_all and 1 or 0), 0), has_reserve and 1 or 0, redis.call('INFO', 'memory')}
