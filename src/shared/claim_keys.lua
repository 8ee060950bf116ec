-- Begins a term for a new leader.
-- KEYS[1]: the keys
-- ARGV: 1 smallest term, 2 name of the leader, 3 its base URL
-- Answer: the term
local stored = redis.call('HMGET', KEYS[1], 'term')
local term = math.max((tonumber(stored[1]) or 0) + 1, tonumber(ARGV[1]))
redis.call('HSET', KEYS[1], 'term', term, 'leader', ARGV[2], 'url', ARGV[3])
return term
