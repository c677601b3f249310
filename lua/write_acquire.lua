-- Takes the write side of a read/write lock for an owner that holds nothing of that side yet.
--
-- KEYS[1]  lock    hash of the lock: mode, a field for each reader, at most one for a writer
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the lock expires by itself
-- ARGV[2]  writer  field of the owner as a writer
-- ARGV[3]  strict  1 to refuse a lock without a mode, 0 to enter it as Redisson does
-- reply    nil     taken: the writer's count is 1
-- reply    integer taken by readers or another writer: remaining TTL in milliseconds, -1 when the hash has none
-- reply    error   WRONGTYPE and what the hash is instead; nothing was changed

local lock, latch = KEYS[1], KEYS[2]
local lease, writer, strict = ARGV[1], ARGV[2], ARGV[3] == '1'

local mode = redis.call('hget', lock, 'mode')
local fields = not mode and redis.call('hlen', lock) or 0
if strict and fields > 0 then
    local kind = fields == 1 and 'plain, fair or fenced lock' or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end
local open = not mode or redis.call('hexists', lock, writer) == 1
if not open or redis.call('exists', latch) == 1 then
    return redis.call('pttl', lock)
end
redis.call('hset', lock, 'mode', 'write', writer, 1)
if not mode and fields == 0 or redis.call('hlen', lock) == 2 or redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return nil
