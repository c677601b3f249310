-- Gives the values of a group from an owner straight to the next one of the same client.
--
-- KEYS[1]    lock   hash of all groups of one name
-- KEYS[2]    latch  set when this request was settled: then it must not take effect any more
-- ARGV[1]    from   owner of the group that releases; it must hold all values
-- ARGV[2]    to     owner of the same group that acquires
-- ARGV[3]    lease  milliseconds until the values are free by themselves
-- ARGV[4..]  value  fields of the values
-- reply      1      handed over: to holds the group once
-- reply      0      from does not hold all values any more; nothing was changed
--
-- Nothing is published: the values were never free. now is the server's; see grouped_acquire.

local lock, latch = KEYS[1], KEYS[2]
local from, to, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('time')
local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + lease)

for i = 4, #ARGV do
    if redis.call('hget', lock, ARGV[i]) ~= from then
        return 0
    end
end
if redis.call('exists', latch) == 1 then
    return 0
end
for i = 4, #ARGV do
    local before, after = ARGV[i] .. ':' .. from, ARGV[i] .. ':' .. to
    redis.call('hdel', lock, before .. ':expire_time', before .. ':lock_count')
    redis.call('hset', lock, ARGV[i], to, after .. ':expire_time', ends, after .. ':lock_count', 1)
end
local left = redis.call('pttl', lock)
if left >= 0 and left < lease then
    redis.call('pexpire', lock, ARGV[3])
end
return 1
