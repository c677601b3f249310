-- Takes a waiter that gives up out of the queue of a fair lock.
--
-- KEYS[1]  lock      hash of the lock
-- KEYS[2]  queue     list of the owners that wait, the next one first
-- KEYS[3]  timeouts  sorted set of the same owners, by the time at which each counts as dead
-- KEYS[4]  channel   what the waiters' own channels begin with; a colon and the owner follow
-- ARGV[1]  owner     field of the owner
-- ARGV[2]  wait      milliseconds for which it counted as alive: those behind it count as dead so much sooner
-- ARGV[3]  publish   PUBLISH, SPUBLISH, or both with a space between
-- reply    0         it did not stand in the queue
-- reply    1         taken out
--
-- When the lock is free and this was the head, its wake-up would be lost: the new head is woken instead.

local lock, queue, timeouts, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, wait, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local place
for i, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
    if place then
        redis.call('zincrby', timeouts, -wait, waiter)
    elseif waiter == owner then
        place = i
    end
end
redis.call('zrem', timeouts, owner)
redis.call('lrem', queue, 0, owner)
if not place then
    return 0
end
local head = redis.call('lindex', queue, 0)
if place == 1 and head and redis.call('exists', lock) == 0 then
    tell(channel .. ':' .. head, '0')
end
return 1
