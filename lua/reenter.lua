-- Counts one more entry of an owner that holds a plain lock already.
--
-- KEYS[1]  lock    hash of the lock
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the lock expires by itself
-- ARGV[2]  owner   field of the owner
-- ARGV[3]  count   hold count after this entry
-- ARGV[4]  strict  1 to take a read/write lock for one that the owner does not hold, 0 not to look
-- reply    1       entered: the owner's count is count
-- reply    0       the owner does not hold the lock any more; nothing was changed

local lock, latch = KEYS[1], KEYS[2]
local lease, owner, count, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local found = redis.call('hmget', lock, owner, 'mode')
if not found[1] or strict and found[2] or redis.call('exists', latch) == 1 then
    return 0
end
redis.call('hset', lock, owner, count)
redis.call('pexpire', lock, lease)
return 1
