-- Frees a fair lock whoever holds it, and wakes the waiter whose turn it is.
--
-- KEYS[1]  lock      hash of the lock
-- KEYS[2]  queue     list of the owners that wait, the next one first
-- KEYS[3]  timeouts  sorted set of the same owners, by the time at which each counts as dead
-- KEYS[4]  channel   what the waiters' own channels begin with; a colon and the owner follow
-- ARGV[1]  publish   PUBLISH, SPUBLISH, or both with a space between
-- ARGV[2]  strict    1 to refuse a lock of another kind, 0 to free it as Redisson does
-- reply    0         nobody held it
-- reply    1         freed
-- reply    string    freed, but the server refused the message: its words
-- reply    error     WRONGTYPE and what the hash is instead; nothing was changed

local lock, queue, timeouts, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local publish, strict = ARGV[1], ARGV[2] == '1'
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

-- A key of another type is not a lock: it fails here with WRONGTYPE before anything is deleted. A lock of this kind has one field.
local fields = redis.call('hlen', lock)
if strict and fields > 1 then
    local mode = redis.call('hget', lock, 'mode')
    local kind = mode and 'read/write lock in mode ' .. mode or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
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

if fields == 0 then
    return 0
end
redis.call('del', lock)
return head and tell(channel .. ':' .. head, '0') or 1
