-- The beginning of each script of counts and keys.

-- No server writes another type: such a key is treated as lost data. It would fail all calls that use it.
local function mend(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then
    redis.call('DEL', key)
  end
end

local function hash(key)
  mend(key, 'hash')
  return redis.call('HGETALL', key)
end

