-- Frees the values of a group whoever holds them, one owner or several, and wakes all waiters.
--
-- KEYS[1]    lock     hash of all groups of one name
-- KEYS[2]    channel  where waiters listen
-- ARGV[1]    publish  PUBLISH, SPUBLISH, or both with a space between
-- ARGV[2..]  value    fields of the values
-- reply      0        nobody held any of them
-- reply      1        freed
-- reply      string   freed, but the server refused the message: its words
-- reply      error    WRONGTYPE and what the hash is instead; nothing was changed
--
-- On the two messages see grouped_release; now is the server's, see grouped_acquire.

local lock, channel = KEYS[1], KEYS[2]
local publish = ARGV[1]
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

local freed = false
for i = 2, #ARGV do
    local holder = redis.call('hget', lock, ARGV[i])
    if holder then
        local holding = ARGV[i] .. ':' .. holder
        freed = freed or tonumber(redis.call('hget', lock, holding .. ':expire_time') or 0) > now
        redis.call('hdel', lock, ARGV[i], holding .. ':expire_time', holding .. ':lock_count')
    end
end
if not freed then
    local mode = redis.call('hget', lock, 'mode')
    if mode or redis.call('hlen', lock) == 1 then
        local kind = mode and 'read/write lock in mode ' .. mode or 'plain, fair or fenced lock'
        return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
    end
    return 0
end
tell(channel, '1')
return tell(channel, '0') or 1
