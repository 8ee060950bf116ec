-- The beginning of each script of counts and keys.

-- No server writes another type: such a key is treated as lost data. It would fail all calls that use it.
local function mend(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then
    redis.call('DEL', key)
  end
end

-- No server writes as many fields, which would make each call slow.
local FIELDS_MAX = 10000

local function hash(key)
  mend(key, 'hash')
  if redis.call('HLEN', key) > FIELDS_MAX then
    redis.call('DEL', key)
  end
  return redis.call('HGETALL', key)
end

-- Other texts may be no UTF-8, which servers cannot read, or have a meaning in patterns.
local function is_hex(text, digits)
  return text and #text == digits and not string.find(text, '%X')
end

-- An integer from 0, below which all are exact, or nothing. No server writes NaN or infinity either.
local function integer(text, max)
  local number = tonumber(text)
  return number and number >= 0 and number <= max and number % 1 == 0 and number or nil
end

