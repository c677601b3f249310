-- Counts one more entry of an owner that holds a plain lock already.
--
-- KEYS[1]  lock    hash of the lock
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the lock expires by itself
-- ARGV[2]  owner   field of the owner
-- ARGV[3]  count   hold count after this entry
-- reply    1       entered: the owner's count is count
-- reply    0       the owner does not hold the lock any more; nothing was changed

local lock, latch = KEYS[1], KEYS[2]
local lease, owner, count = ARGV[1], ARGV[2], ARGV[3]

if redis.call('hexists', lock, owner) == 0 or redis.call('exists', latch) == 1 then
    return 0
end
redis.call('hset', lock, owner, count)
redis.call('pexpire', lock, lease)
return 1
