-- Counts one more entry of an owner that holds a fenced lock already; each entry has a token of its own.
--
-- KEYS[1]  lock   hash of the lock
-- KEYS[2]  token  counter of the fencing tokens
-- KEYS[3]  latch  set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease  milliseconds until the lock expires by itself
-- ARGV[2]  owner  field of the owner
-- ARGV[3]  count  hold count after this entry
-- ARGV[4]  fence  1 when this is an acquisition, 0 when only the lease is set anew
-- ARGV[5]  strict 1 to take a read/write lock for one that the owner does not hold, 0 not to look
-- reply    -1 token  entered: the owner's count is count; token is the newest one
-- reply    0 -1      the owner does not hold the lock any more; nothing was changed

local lock, token, latch = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, count = ARGV[1], ARGV[2], ARGV[3]
local fence, strict = ARGV[4] == '1', ARGV[5] == '1'

local found = redis.call('hmget', lock, owner, 'mode')
if not found[1] or strict and found[2] or redis.call('exists', latch) == 1 then
    return {0, -1}
end
local fencing
if fence then
    fencing = redis.call('incr', token)
else
    fencing = tonumber(redis.call('get', token) or 0)
end
redis.call('hset', lock, owner, count)
redis.call('pexpire', lock, lease)
return {-1, fencing}
