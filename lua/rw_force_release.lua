-- Frees one side of a read/write lock whoever holds it, and wakes the waiters; the other side is left alone.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- ARGV[1]  publish  PUBLISH, SPUBLISH, or both with a space between
-- ARGV[2]  mode     read or write: the side to free
-- ARGV[3]  message  what waiters are told: 0 for the read side, 1 for the write side
-- ARGV[4]  strict   1 to refuse a lock without a mode, 0 to find nothing to free in it as Redisson does
-- reply    0        nobody held that side
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words
-- reply    error    WRONGTYPE and what the hash is instead; nothing was changed

local lock, channel = KEYS[1], KEYS[2]
local publish, side, message, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local function tell(where, what)
    local refusal
    for verb in publish:gmatch('%u+') do
        local told = redis.pcall(verb, where, what)
        refusal = refusal or type(told) == 'table' and told.err
    end
    return refusal
end

local mode = redis.call('hget', lock, 'mode')
if mode ~= side then
    local fields = not mode and redis.call('hlen', lock) or 0
    if strict and fields > 0 then
        local kind = fields == 1 and 'plain, fair or fenced lock' or 'grouped multi-lock, or no lock'
        return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
    end
    return 0
end
redis.call('del', lock)
return tell(channel, message) or 1
