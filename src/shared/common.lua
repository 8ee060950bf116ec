-- The beginning of each script of counts and keys.

-- No server writes another type: such a key is treated as lost data. It would fail all calls that use it.
local function mend(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then
    redis.call('DEL', key)
  end
end

-- Other texts may be no UTF-8, which servers cannot read, or have a meaning in patterns.
local function is_hex(text, digits)
  return text and #text == digits and not string.find(text, '%X')
end

