-- Lowers the count of an owner's read holds to a given number, and frees the lock when no reader and no writer is left.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- KEYS[3]  name     what the keys of all read holds begin with; owner, rwlock_timeout and the hold's number follow
-- KEYS[4]  latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]  owner    field of the owner
-- ARGV[2]  count    hold count that is left after this release
-- ARGV[3]  publish  PUBLISH, SPUBLISH, or both with a space between
-- reply    nil      the owner does not hold the read side; when there is no read/write lock, the waiters were woken
-- reply    0        released; readers or a writer remain
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words
--
-- The lock then lives as long as the longest of the read holds that are left. A reader that crashed has none: its field
-- goes with the lock.

local lock, channel, name, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, count, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local function marker(field, i)
    return name .. ':' .. field .. ':rwlock_timeout:' .. i
end

local mode = redis.call('hget', lock, 'mode')
if not mode then
    tell(channel, '0')
    return nil
end
local holds = tonumber(redis.call('hget', lock, owner) or 0)
if holds == 0 or redis.call('exists', latch) == 1 then
    return nil
end
for i = count + 1, holds do
    redis.call('del', marker(owner, i))
end
if count > 0 then
    redis.call('hset', lock, owner, count)
else
    redis.call('hdel', lock, owner)
end

if redis.call('hlen', lock) > 1 then
    local longest = -3
    for _, field in ipairs(redis.call('hkeys', lock)) do
        local n = field ~= 'mode' and tonumber(redis.call('hget', lock, field)) or 0
        for i = 1, n do
            longest = math.max(longest, redis.call('pttl', marker(field, i)))
        end
    end
    if longest > 0 then
        redis.call('pexpire', lock, longest)
        return 0
    end
    if mode == 'write' then
        return 0
    end
end
redis.call('del', lock)
return tell(channel, '0') or 1
