-- Lowers the hold count of a fair lock to a given number; 0 frees it and wakes the waiter whose turn it is.
--
-- KEYS[1]  lock      hash of the lock
-- KEYS[2]  queue     list of the owners that wait, the next one first
-- KEYS[3]  timeouts  sorted set of the same owners, by the time at which each counts as dead
-- KEYS[4]  channel   what the waiters' own channels begin with; a colon and the owner follow
-- KEYS[5]  latch     set when this request was settled: then it must not take effect any more
-- ARGV[1]  owner     field of the owner
-- ARGV[2]  count     hold count that is left after this release
-- ARGV[3]  lease     milliseconds that a lock which stays held gets as its TTL
-- ARGV[4]  publish   PUBLISH, SPUBLISH, or both with a space between
-- ARGV[5]  strict    1 to take a read/write lock for one that the owner does not hold, 0 not to look
-- reply    nil       the owner does not hold the lock; when nobody does, the waiter whose turn it is was woken
-- reply    0         still held, count times
-- reply    1         freed
-- reply    string    freed, but the server refused the message: its words

local lock, queue, timeouts, channel, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, count, lease, publish, strict = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == '1'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local head = redis.call('lindex', queue, 0)
while head do
    local death = tonumber(redis.call('zscore', timeouts, head) or now + 1)
    if death > now then
        break
    end
    redis.call('zrem', timeouts, head)
    redis.call('lpop', queue)
    head = redis.call('lindex', queue, 0)
end

local found = redis.call('hmget', lock, owner, 'mode')
local held = found[1] and not (strict and found[2])
if held and redis.call('exists', latch) == 1 then
    return nil
end
if not held and redis.call('exists', lock) == 1 then
    return nil
end
if held and count > 0 then
    redis.call('hset', lock, owner, count)
    redis.call('pexpire', lock, lease)
    return 0
end
redis.call('del', lock)
local refusal = head and tell(channel .. ':' .. head, '0')
if not held then
    return nil
end
return refusal or 1
