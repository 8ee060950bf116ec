-- Stores the key file of the leader, unless a later term has begun or the stored file is as new.
-- KEYS[1]: the keys
-- ARGV: 1 term, 2 revision, 3 name of the leader, 4 its base URL, 5 number of its start, 6 key file
-- Answer: the term in the store
local stored = redis.call('HMGET', KEYS[1], 'term', 'revision')
local term, revision = tonumber(stored[1]) or 0, tonumber(stored[2]) or 0
if term <= tonumber(ARGV[1]) then
  term = tonumber(ARGV[1])
  redis.call('HSET', KEYS[1], 'term', ARGV[1], 'leader', ARGV[3], 'url', ARGV[4], 'start', ARGV[5])
  if revision < tonumber(ARGV[2]) then
    redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'file', ARGV[6])
  end
end
return term
