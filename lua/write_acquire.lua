-- Takes the write side of a read/write lock for an owner that holds nothing of that side yet.
--
-- KEYS[1]  lock    hash of the lock: mode, a field for each reader, at most one for a writer
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the lock expires by itself
-- ARGV[2]  writer  field of the owner as a writer
-- reply    nil     taken: the writer's count is 1
-- reply    integer taken by readers or another writer: remaining TTL in milliseconds, -1 when the hash has none

local lock, latch = KEYS[1], KEYS[2]
local lease, writer = ARGV[1], ARGV[2]

local mode = redis.call('hget', lock, 'mode')
local open = not mode or redis.call('hexists', lock, writer) == 1
if not open or redis.call('exists', latch) == 1 then
    return redis.call('pttl', lock)
end
redis.call('hset', lock, 'mode', 'write', writer, 1)
if redis.call('hlen', lock) == 2 or redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return nil
