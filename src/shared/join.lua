-- Registers a server with the service. If the store may have lost data, a new marker begins: then nothing is granted
-- for its day until all servers have sent their counts.
-- KEYS: 1 the service
-- ARGV: 1 a new marker, 2 run id of the store, 3 tag seed of the server, 4 "used" if the server has counts by that seed,
--       else "new", 5 its state directory, 6 its day in days since 1970, 7 marker for which its counts were sent, or "",
--       8 number of servers, 9 milliseconds after which a server without a heartbeat does not count
-- Answer: the marker, the tag seed, the day of the marker in days since 1970, "1" if all servers have sent their counts
local stored = redis.pcall('HGETALL', KEYS[1])
if stored.err then
  if not string.find(stored.err, 'WRONGTYPE') then
    return stored
  end
  redis.call('DEL', KEYS[1])
  stored = {}
end
local fields, sent = {}, {}
local seconds, micros = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(micros / 1000)
for at = 1, #stored, 2 do
  -- No server writes longer values.
  local name, value = stored[at], string.sub(stored[at + 1], 1, 64)
  fields[name] = value
  if #name <= 18 and string.find(name, '^s:%x+$') and tonumber(value) then
    sent[name] = tonumber(value)
  elseif name ~= 'marker' and name ~= 'run' and name ~= 'tag' and name ~= 'day' and name ~= 'begun' and name ~= 'all' then
    redis.call('HDEL', KEYS[1], name)
  end
end

local own = 's:' .. ARGV[5]
local marker, day, begun = fields.marker, tonumber(fields.day), tonumber(fields.begun)
if not marker or #marker ~= 16 or fields.run ~= ARGV[2] or not day or not begun then
  marker, day, begun = ARGV[1], 0, now
  for name in pairs(sent) do
    redis.call('HDEL', KEYS[1], name)
  end
  sent = {}
end
if not sent[own] then
  if math.abs(now - begun) < 3600000 then
    -- The clock of this server is ahead: it has forgotten its counts of the days before.
    day = math.max(day, tonumber(ARGV[6]))
  end
end
if sent[own] or ARGV[7] == marker then
  sent[own] = now
  redis.call('HSET', KEYS[1], own, string.format('%d', now))
end
-- A server that has ended may have been replaced by one that counts too.
local count = 0
for _, heartbeat in pairs(sent) do
  if math.abs(now - heartbeat) <= tonumber(ARGV[9]) then
    count = count + 1
  end
end
local has_all = fields.all == marker or count >= tonumber(ARGV[8])
-- The seed of a server with counts is the one by which others know its clients.
local seed, from = string.match(fields.tag or '', '^(%x+) (%a+)$')
if not seed or #seed ~= 16 or (from == 'new' and ARGV[4] == 'used' and seed ~= ARGV[3]) then
  seed, from = ARGV[3], ARGV[4]
end
local values = {marker = marker, run = ARGV[2], tag = seed .. ' ' .. from, day = tostring(day)}
values.begun, values.all = string.format('%d', begun), has_all and marker or ''
for name, value in pairs(values) do
  if fields[name] ~= value then
    redis.call('HSET', KEYS[1], name, value)
  end
end
return {marker, seed, tostring(day), has_all and '1' or '0'}
