-- Renews the leases of one group of values in many hashes, each only where its owner still holds all values.
--
-- KEYS[1..]  lock   hashes, each of all groups of one name
-- ARGV[1]    lease  milliseconds that each group has left at least
-- ARGV[2..]  part   owner of the group, one for each hash, and then the fields of the values
-- reply      list   for each hash: 1 renewed, 0 not all values are held by this owner any more
--
-- A lease that lasts longer is left alone, so that a renewal which arrives late can't shorten one that was given since.
-- A key that is no hash any more is one lost group, and must not end the renewal of the others; any other error says
-- nothing about the groups, and ends all of it. now is the server's; see grouped_acquire.

local lease = tonumber(ARGV[1])
local time = redis.call('time')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + lease
local renewed = {}
for k, lock in ipairs(KEYS) do
    local owner = ARGV[k + 1]
    local due = {}
    renewed[k] = 1
    for i = #KEYS + 2, #ARGV do
        local field = ARGV[i] .. ':' .. owner .. ':expire_time'
        local found = redis.pcall('hmget', lock, ARGV[i], field)
        if found.err and not found.err:find('WRONGTYPE', 1, true) then
            return found
        end
        if found[1] ~= owner then
            renewed[k] = 0
            break
        end
        if tonumber(found[2] or 0) < ends then
            due[#due + 1] = field
        end
    end
    if renewed[k] == 1 then
        for _, field in ipairs(due) do
            redis.call('hset', lock, field, string.format('%.0f', ends))
        end
        if redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, ARGV[1])
        end
    end
end
return renewed
