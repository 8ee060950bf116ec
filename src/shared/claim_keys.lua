-- Begins a term for a new leader, unless this start of it has begun one: an answer may have been lost.
-- KEYS[1]: the keys
-- ARGV: 1 smallest term, 2 name of the leader, 3 its base URL, 4 number of its start
-- Answer: the term
local stored = redis.call('HMGET', KEYS[1], 'term', 'start')
if stored[1] and stored[2] == ARGV[4] then
  return tonumber(stored[1])
end
local term = math.max((tonumber(stored[1]) or 0) + 1, tonumber(ARGV[1]))
redis.call('HSET', KEYS[1], 'term', term, 'leader', ARGV[2], 'url', ARGV[3], 'start', ARGV[4])
return term
