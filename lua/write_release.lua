-- Lowers the count of a writer's holds to a given number; 0 frees the lock, or leaves the same owner's read holds.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- KEYS[3]  latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]  writer   field of the owner as a writer
-- ARGV[2]  count    hold count that is left after this release
-- ARGV[3]  lease    milliseconds that a lock which stays held gets as its TTL
-- ARGV[4]  publish  PUBLISH, SPUBLISH, or both with a space between
-- reply    nil      the owner does not hold the write side; when there is no read/write lock, the waiters were woken
-- reply    0        still held, count times
-- reply    1        freed, or left to this owner's read holds: readers may enter
-- reply    string   as 1, but the server refused the message: its words
--
-- Redisson tells nobody of a lock that is left to readers, so that other readers sleep until its TTL. Here they are
-- woken: they may enter, and a message is only an invitation to ask.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local writer, count, lease, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local mode = redis.call('hget', lock, 'mode')
if not mode then
    tell(channel, '1')
    return nil
end
if mode == 'read' or redis.call('hexists', lock, writer) == 0 or redis.call('exists', latch) == 1 then
    return nil
end
if count > 0 then
    redis.call('hset', lock, writer, count)
    redis.call('pexpire', lock, lease)
    return 0
end
redis.call('hdel', lock, writer)
if redis.call('hlen', lock) <= 1 then -- 0 where keys expire while a script runs, as in miniredis
    redis.call('del', lock)
else
    redis.call('hset', lock, 'mode', 'read')
end
return tell(channel, '1') or 1
