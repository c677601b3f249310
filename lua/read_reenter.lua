-- Counts one more read hold of an owner that has some already, or sets the lease of the newest one anew.
--
-- KEYS[1]  lock    hash of the lock
-- KEYS[2]  marker  what the keys of this owner's read holds begin with; a colon and the hold's number follow
-- KEYS[3]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the hold expires by itself
-- ARGV[2]  owner   field of the owner
-- ARGV[3]  count   hold count after this entry
-- ARGV[4]  strict  1 to take a lock without a mode for one that the owner does not hold, 0 not to look
-- reply    1       entered: the owner's count is count
-- reply    0       the owner does not hold the lock any more; nothing was changed

local lock, marker, latch = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, count, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local found = redis.call('hmget', lock, owner, 'mode')
if not found[1] or strict and not found[2] or redis.call('exists', latch) == 1 then
    return 0
end
redis.call('hset', lock, owner, count)
redis.call('set', marker .. ':' .. count, '1', 'px', lease)
if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return 1
