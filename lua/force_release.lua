-- Frees a plain lock whoever holds it, and wakes one waiter of each process.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- ARGV[1]  publish  PUBLISH or SPUBLISH; empty to tell nobody
-- reply    0        nobody held it
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words

local lock, channel = KEYS[1], KEYS[2]
local publish = ARGV[1]

-- A key of another type is not a lock: it fails here with WRONGTYPE before anything is deleted.
if redis.call('hlen', lock) == 0 then
    return 0
end
redis.call('del', lock)
if publish ~= '' then
    local told = redis.pcall(publish, channel, '0')
    if type(told) == 'table' and told.err then
        return told.err
    end
end
return 1
