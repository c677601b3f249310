-- Gives a fenced lock from an owner straight to the next one of the same client, with a new token.
--
-- KEYS[1]  lock   hash of the lock
-- KEYS[2]  token  counter of the fencing tokens
-- KEYS[3]  latch  set when this request was settled: then it must not take effect any more
-- ARGV[1]  from   field of the owner that releases; it must hold the lock
-- ARGV[2]  to     field of the owner that acquires
-- ARGV[3]  lease  milliseconds until the lock expires by itself
-- ARGV[4]  strict 1 to take a read/write lock for one that from does not hold, 0 not to look
-- reply    -1 token  handed over: to holds the lock once, and this is its fencing token
-- reply    0 -1      from does not hold the lock any more; nothing was changed
--
-- Nothing is published, and the key is at no time gone: the lock was never free.

local lock, token, latch = KEYS[1], KEYS[2], KEYS[3]
local from, to, lease, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local found = redis.call('hmget', lock, from, 'mode')
if not found[1] or strict and found[2] or redis.call('exists', latch) == 1 then
    return {0, -1}
end
local fencing = redis.call('incr', token)
redis.call('hset', lock, to, 1)
if from ~= to then
    redis.call('hdel', lock, from)
end
redis.call('pexpire', lock, lease)
return {-1, fencing}
