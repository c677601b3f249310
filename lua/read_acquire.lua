-- Takes the read side of a read/write lock for an owner that holds nothing of that side yet.
--
-- KEYS[1]  lock    hash of the lock: mode, a field for each reader, at most one for a writer
-- KEYS[2]  marker  what the keys of this owner's read holds begin with; a colon and the hold's number follow
-- KEYS[3]  latch   set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease   milliseconds until the hold expires by itself
-- ARGV[2]  owner   field of the owner
-- ARGV[3]  writer  field of the same owner as a writer
-- ARGV[4]  strict  1 to refuse a lock without a mode, 0 to enter it as Redisson does
-- reply    nil     taken: the owner's count is 1
-- reply    integer taken by a writer: remaining TTL in milliseconds, -1 when the hash has none
-- reply    error   WRONGTYPE and what the hash is instead; nothing was changed

local lock, marker, latch = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, writer, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local mode = redis.call('hget', lock, 'mode')
local fields = not mode and redis.call('hlen', lock) or 0
if strict and fields > 0 then
    local kind = fields == 1 and 'plain, fair or fenced lock' or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end
local open = not mode or mode == 'read' or redis.call('hexists', lock, writer) == 1
if not open or redis.call('exists', latch) == 1 then
    return redis.call('pttl', lock)
end
redis.call('hset', lock, 'mode', mode or 'read', owner, 1)
redis.call('set', marker .. ':1', '1', 'px', lease)
-- Other readers, or the owner's own write hold, may last longer.
if not mode or redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return nil
