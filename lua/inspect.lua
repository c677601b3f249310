-- Reads the state of a lock at one moment.
--
-- KEYS[1]  lock  key of the lock
-- reply    list  type of the key; TTL in milliseconds (-1 none, -2 no key); its fields and values in turn when it is a hash

local kind = redis.call('type', KEYS[1]).ok
local fields = {}
if kind == 'hash' then
    fields = redis.call('hgetall', KEYS[1])
end
return {kind, redis.call('pttl', KEYS[1]), fields}
