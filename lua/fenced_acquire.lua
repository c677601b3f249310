-- Takes a fenced lock for an owner that holds nothing of it yet.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  token    counter of the fencing tokens, which never expires
-- KEYS[3]  latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease    milliseconds until the lock expires by itself
-- ARGV[2]  owner    field of the owner
-- reply    -1 token  taken: the owner's count is 1, and this is its fencing token
-- reply    ttl -1    taken by somebody else: remaining TTL in milliseconds, -1 when the hash has none

local lock, token, latch = KEYS[1], KEYS[2], KEYS[3]
local lease, owner = ARGV[1], ARGV[2]

local free = redis.call('exists', lock) == 0
if (free or redis.call('hexists', lock, owner) == 1) and redis.call('exists', latch) == 0 then
    local fencing = redis.call('incr', token)
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return {-1, fencing}
end
return {redis.call('pttl', lock), -1}
