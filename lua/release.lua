-- Lowers the hold count of a plain lock to a given number; 0 frees it and wakes one waiter of each process.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- KEYS[3]  latch    set when this request was answered for: then it must not take effect any more
-- ARGV[1]  owner    field of the owner
-- ARGV[2]  count    hold count that is left after this release
-- ARGV[3]  lease    milliseconds that a lock which stays held gets as its TTL
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  sending  0 at the first sending, 1 at its first repetition, …: each bars the ones before it
-- ARGV[6]  bar      milliseconds for which earlier sendings are barred
-- reply    nil      the owner does not hold the lock (at a repeated sending: an earlier one may have freed it)
-- reply    0        still held, count times
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words
--
-- The count is set and not decremented: the client knows what must be left, so a request that runs twice counts once.
-- A refused message (an ACL that forbids the channel) must not leave the caller in doubt whether the lock is free.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local owner, count, lease, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local sending, bar = tonumber(ARGV[5]), ARGV[6]

if tonumber(redis.call('get', latch) or -1) > sending then
    return nil
end
if sending > 0 then
    redis.call('set', latch, sending, 'px', bar)
end
if redis.call('hexists', lock, owner) == 0 then
    return nil
end
if count > 0 then
    redis.call('hset', lock, owner, count)
    redis.call('pexpire', lock, lease)
    return 0
end
redis.call('del', lock)
local told = redis.pcall(publish, channel, '0')
if type(told) == 'table' and told.err then
    return told.err
end
return 1
