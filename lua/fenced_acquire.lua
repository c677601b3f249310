-- Takes a fenced lock for an owner that holds nothing of it yet.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  token    counter of the fencing tokens, which never expires
-- KEYS[3]  latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease    milliseconds until the lock expires by itself
-- ARGV[2]  owner    field of the owner
-- ARGV[3]  strict   1 to refuse a lock of another kind, 0 to wait for it as Redisson does
-- reply    -1 token  taken: the owner's count is 1, and this is its fencing token
-- reply    ttl -1    taken by somebody else: remaining TTL in milliseconds, -1 when the hash has none
-- reply    error     WRONGTYPE and what the hash is instead; nothing was changed

local lock, token, latch = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, strict = ARGV[1], ARGV[2], ARGV[3] == '1'

-- A lock of this kind has one field.
local fields = redis.call('hlen', lock)
if strict and fields > 1 then
    local mode = redis.call('hget', lock, 'mode')
    local kind = mode and 'read/write lock in mode ' .. mode or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end
if (fields == 0 or redis.call('hexists', lock, owner) == 1) and redis.call('exists', latch) == 0 then
    local fencing = redis.call('incr', token)
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return {-1, fencing}
end
return {redis.call('pttl', lock), -1}
