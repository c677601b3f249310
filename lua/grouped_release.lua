-- Lowers the hold count of a group to a given number; 0 frees its values and wakes all waiters.
--
-- KEYS[1]    lock     hash of all groups of one name
-- KEYS[2]    channel  where waiters listen
-- KEYS[3]    latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]    owner    owner of the group
-- ARGV[2]    count    hold count that is left after this release
-- ARGV[3]    lease    milliseconds that values which stay held have left at least
-- ARGV[4]    publish  PUBLISH, SPUBLISH, or both with a space between
-- ARGV[5..]  value    fields of the values
-- reply      nil      the owner does not hold all values; what it held of them is freed if count is 0
-- reply      0        still held, count times
-- reply      1        freed
-- reply      string   freed, but the server refused the message: its words
--
-- All values share the channel, and a JVM wakes a single waiter for a 0, who may wait for another value. So a 1 goes before
-- it, which wakes all that sleep; the 0 is for the one who is about to. now is the server's; see grouped_acquire.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local owner, count, lease, publish = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
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

if redis.call('exists', latch) == 1 then
    return nil
end
local own, due = {}, {}
local held = true
for i = 5, #ARGV do
    local field = ARGV[i] .. ':' .. owner .. ':expire_time'
    local found = redis.call('hmget', lock, ARGV[i], field)
    local ends = tonumber(found[2] or 0)
    if found[1] == owner then
        own[#own + 1] = ARGV[i]
    end
    if ends < now + lease then
        due[#due + 1] = field
    end
    held = held and found[1] == owner and ends >= now
end

if count > 0 then
    if not held then
        return nil
    end
    for _, value in ipairs(own) do
        redis.call('hset', lock, value .. ':' .. owner .. ':lock_count', count)
    end
    for _, field in ipairs(due) do
        redis.call('hset', lock, field, string.format('%.0f', now + lease))
    end
    local left = redis.call('pttl', lock)
    if left >= 0 and left < lease then
        redis.call('pexpire', lock, ARGV[3])
    end
    return 0
end

for i = 5, #ARGV do
    redis.call('hdel', lock, ARGV[i] .. ':' .. owner .. ':expire_time', ARGV[i] .. ':' .. owner .. ':lock_count')
end
for _, value in ipairs(own) do
    redis.call('hdel', lock, value)
end
local refusal
if #own > 0 then
    tell(channel, '1')
    refusal = tell(channel, '0')
end
if not held then
    return nil
end
return refusal or 1
