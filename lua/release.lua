-- Lowers the hold count of a plain lock to a given number; 0 frees it and wakes one waiter of each process.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- KEYS[3]  latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]  owner    field of the owner
-- ARGV[2]  count    hold count that is left after this release
-- ARGV[3]  lease    milliseconds that a lock which stays held gets as its TTL
-- ARGV[4]  publish  PUBLISH, SPUBLISH, or both with a space between; empty to tell nobody
-- ARGV[5]  strict   1 to take a read/write lock for one that the owner does not hold, 0 not to look
-- reply    nil      the owner does not hold the lock
-- reply    0        still held, count times
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words
--
-- The count is set and not decremented: the client knows what must be left, so a request that runs twice counts once.
-- An owner can stand in a read/write lock of the same name as a reader: to free that would take it from all readers.
-- A refused message (an ACL that forbids the channel) must not leave the caller in doubt whether the lock is free.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local owner, count, lease, publish, strict = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == '1'

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local found = redis.call('hmget', lock, owner, 'mode')
if not found[1] or strict and found[2] or redis.call('exists', latch) == 1 then
    return nil
end
if count > 0 then
    redis.call('hset', lock, owner, count)
    redis.call('pexpire', lock, lease)
    return 0
end
redis.call('del', lock)
return tell(channel, '0') or 1
