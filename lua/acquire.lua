-- Takes a plain lock for an owner that holds nothing of it yet.
--
-- KEYS[1]  lock    hash of the lock
-- KEYS[2]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the lock expires by itself
-- ARGV[2]  owner   field of the owner
-- ARGV[3]  strict  1 to refuse a lock of another kind, 0 to wait for it as Redisson does
-- reply    nil     taken: the owner's count is 1
-- reply    integer taken by somebody else: remaining TTL in milliseconds, -1 without one, -2 when barred
-- reply    error   WRONGTYPE and what the hash is instead; nothing was changed
--
-- An owner that stands in the hash although its client knows of no hold is a left-over of that same owner (its trust
-- ended before the TTL did): the lock is its own, and is counted from 1 again.

local lock, latch = KEYS[1], KEYS[2]
local lease, owner, strict = ARGV[1], ARGV[2], ARGV[3] == '1'

-- A lock of this kind has one field.
local fields = redis.call('hlen', lock)
if strict and fields > 1 then
    local mode = redis.call('hget', lock, 'mode')
    local kind = mode and 'read/write lock in mode ' .. mode or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end
if (fields == 0 or redis.call('hexists', lock, owner) == 1) and redis.call('exists', latch) == 0 then
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return nil
end
return redis.call('pttl', lock)
