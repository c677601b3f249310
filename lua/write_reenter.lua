-- Counts one more write hold of an owner that has some already, or only sets the lease anew.
--
-- KEYS[1]  lock    hash of the lock
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds that the lock lives longer, or at an extension lives
-- ARGV[2]  writer  field of the owner as a writer
-- ARGV[3]  count   hold count after this entry
-- ARGV[4]  add     1 to add the lease to what is left, as an entry does; 0 to set it, as an extension does
-- reply    1       entered: the writer's count is count
-- reply    0       the owner does not hold the write side any more; nothing was changed

local lock, latch = KEYS[1], KEYS[2]
local lease, writer, count, add = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == '1'

if redis.call('hexists', lock, writer) == 0 or redis.call('exists', latch) == 1 then
    return 0
end
redis.call('hset', lock, writer, count)
if add then
    lease = math.max(redis.call('pttl', lock), 0) + lease
end
if redis.call('hlen', lock) == 2 or redis.call('pttl', lock) < lease then
    redis.call('pexpire', lock, lease)
end
return 1
