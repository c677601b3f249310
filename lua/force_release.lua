-- Frees a plain lock whoever holds it, and wakes one waiter of each process.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- ARGV[1]  publish  PUBLISH, SPUBLISH, or both with a space between; empty to tell nobody
-- ARGV[2]  strict   1 to refuse a lock of another kind, 0 to free it as Redisson does
-- reply    0        nobody held it
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words
-- reply    error    WRONGTYPE and what the hash is instead; nothing was changed

local lock, channel = KEYS[1], KEYS[2]
local publish, strict = ARGV[1], ARGV[2] == '1'

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
if fields == 0 then
    return 0
end
redis.call('del', lock)
return tell(channel, '0') or 1
