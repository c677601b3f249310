-- Reads at one moment who holds the values of a group.
--
-- KEYS[1]    lock   key of the hash of all groups of one name
-- ARGV[1..]  value  fields of the values
-- reply      list   as of inspect: type, or what else it is; TTL of the value that is held longest; owners and counts in turn
--
-- The count is that of the value which the owner holds least often, and 0 when it does not hold them all. When nobody
-- holds any value the type is none. now is the server's; see grouped_acquire.

local lock = KEYS[1]
local kind = redis.call('type', lock).ok
if kind ~= 'hash' then
    return {kind, redis.call('pttl', lock), {}, {}, '0'}
end
local mode = redis.call('hget', lock, 'mode')
if mode or redis.call('hlen', lock) == 1 then
    local other = mode and 'read/write lock in mode ' .. mode or 'plain, fair or fenced lock'
    return {other, redis.call('pttl', lock), {}, {}, '0'}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local last = 0
local owners, values, least = {}, {}, {}
for _, value in ipairs(ARGV) do
    local holder = redis.call('hget', lock, value)
    local holding = value .. ':' .. (holder or '')
    local ends = holder and tonumber(redis.call('hget', lock, holding .. ':expire_time') or 0) or 0
    if ends > now then
        local count = tonumber(redis.call('hget', lock, holding .. ':lock_count') or 0)
        if not values[holder] then
            owners[#owners + 1], values[holder], least[holder] = holder, 0, count
        end
        values[holder], least[holder] = values[holder] + 1, math.min(least[holder], count)
        last = math.max(last, ends)
    end
end
if last == 0 then
    return {'none', -2, {}, {}, '0'}
end
local fields = {}
for _, holder in ipairs(owners) do
    fields[#fields + 1] = holder
    fields[#fields + 1] = tostring(values[holder] == #ARGV and least[holder] or 0)
end
local ttl = redis.call('pttl', lock)
if ttl < 0 or last - now < ttl then
    ttl = last - now
end
return {kind, ttl, fields, {}, '0'}
