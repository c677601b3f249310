-- Takes the values of a group for an owner that holds nothing of it yet: all of them, or none.
--
-- KEYS[1]    lock     hash of all groups of one name
-- KEYS[2]    latch    set when this request was settled: then it must not take effect any more
-- ARGV[1]    lease    milliseconds until the values are free by themselves
-- ARGV[2]    owner    owner of the group
-- ARGV[3]    kin      what the owners of all groups begin with that the same owner takes
-- ARGV[4..]  value    fields of the values
-- reply      nil      taken: the owner's count is 1
-- reply      integer  somebody else holds a value: milliseconds until all are free, or the hash's TTL when barred
-- reply      error    REENTRY and the number of a value that the same owner holds in another group: waiting were for ever
--
-- A value's field names its owner; beside it stand until when, in ms since the epoch, and how often. A time that has
-- passed frees the value, although its fields are still there. now is the server's, so that clients' clocks don't matter
-- among those that do the same; Redisson takes its own.
-- What an earlier owner has left is removed here: a name that is always in use would collect it for ever, since
-- the hash as a whole never expires, and Redisson would count on from it if that owner came back.
-- An owner that stands there although its client knows of no hold is a left-over of that same owner, counted from 1 again.

local lock, latch = KEYS[1], KEYS[2]
local lease, owner, kin = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A group has three fields for each value. One field alone is a plain lock, and mode is that of a read/write lock.
local mode = redis.call('hget', lock, 'mode')
if mode or redis.call('hlen', lock) == 1 then
    local kind = mode and 'read/write lock in mode ' .. mode or 'plain, fair or fenced lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end
local last = 0
local stale = {}
for i = 4, #ARGV do
    local value = ARGV[i]
    local holder = redis.call('hget', lock, value)
    if holder and holder ~= owner then
        local ends = tonumber(redis.call('hget', lock, value .. ':' .. holder .. ':expire_time') or 0)
        if ends > now and holder:sub(1, #kin) == kin then
            return redis.error_reply('REENTRY ' .. (i - 3))
        end
        last = math.max(last, ends)
        stale[#stale + 1] = value .. ':' .. holder
    end
end
local left = redis.call('pttl', lock)
if redis.call('exists', latch) == 1 then
    return left
end
if last > now then
    if left >= 0 then
        return math.min(last - now, left)
    end
    return last - now
end

for _, holding in ipairs(stale) do
    redis.call('hdel', lock, holding .. ':expire_time', holding .. ':lock_count')
end
local ends = string.format('%.0f', now + lease)
for i = 4, #ARGV do
    local holding = ARGV[i] .. ':' .. owner
    redis.call('hset', lock, ARGV[i], owner, holding .. ':expire_time', ends, holding .. ':lock_count', 1)
end
if left == -2 or left >= 0 and left < lease then
    redis.call('pexpire', lock, ARGV[1])
end
return nil
