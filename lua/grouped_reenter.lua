-- Sets the hold count of an owner that holds a group already, and its lease.
--
-- KEYS[1]    lock   hash of all groups of one name
-- KEYS[2]    latch  set when this request was settled: then it must not take effect any more
-- ARGV[1]    lease  milliseconds until the values are free by themselves
-- ARGV[2]    owner  owner of the group
-- ARGV[3]    count  hold count after this entry
-- ARGV[4]    add    1 for an entry, which shortens no lease, 0 when only the lease is set anew
-- ARGV[5..]  value  fields of the values
-- reply      1      entered: the owner's count is count
-- reply      0      the owner does not hold all values any more; nothing was changed
--
-- now is the server's; see grouped_acquire.

local lock, latch = KEYS[1], KEYS[2]
local lease, owner, count, add = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == '1'
local time = redis.call('time')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + lease

local due = {}
for i = 5, #ARGV do
    local field = ARGV[i] .. ':' .. owner .. ':expire_time'
    local found = redis.call('hmget', lock, ARGV[i], field)
    if found[1] ~= owner then
        return 0
    end
    if not add or tonumber(found[2] or 0) < ends then
        due[#due + 1] = field
    end
end
if redis.call('exists', latch) == 1 then
    return 0
end
for i = 5, #ARGV do
    redis.call('hset', lock, ARGV[i] .. ':' .. owner .. ':lock_count', count)
end
for _, field in ipairs(due) do
    redis.call('hset', lock, field, string.format('%.0f', ends))
end
local left = redis.call('pttl', lock)
if left >= 0 and left < lease then
    redis.call('pexpire', lock, ARGV[1])
end
return 1
