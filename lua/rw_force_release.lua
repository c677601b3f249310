-- Frees one side of a read/write lock whoever holds it, and wakes the waiters; the other side is left alone.
--
-- KEYS[1]  lock     hash of the lock
-- KEYS[2]  channel  where waiters listen
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  mode     read or write: the side to free
-- ARGV[3]  message  what waiters are told: 0 for the read side, 1 for the write side
-- reply    0        nobody held that side
-- reply    1        freed
-- reply    string   freed, but the server refused the message: its words

local lock, channel = KEYS[1], KEYS[2]
local publish, mode, message = ARGV[1], ARGV[2], ARGV[3]

if redis.call('hget', lock, 'mode') ~= mode then
    return 0
end
redis.call('del', lock)
local told = redis.pcall(publish, channel, message)
if type(told) == 'table' and told.err then
    return told.err
end
return 1
