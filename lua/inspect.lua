-- Reads the state of a lock at one moment.
--
-- KEYS[1]    lock   key of the lock
-- KEYS[2..]  more   the queue (a list) or the fencing token (a string) of its kind; read by type
-- reply      list   type of the key; TTL in ms (-1 none, -2 no key); fields and values in turn; queue; token

local function typeOf(key)
    return redis.call('type', key).ok
end

local lock = KEYS[1]
local kind = typeOf(lock)
local fields = {}
if kind == 'hash' then
    fields = redis.call('hgetall', lock)
end
local queue, token = {}, '0'
for i = 2, #KEYS do
    local what = typeOf(KEYS[i])
    if what == 'list' then
        queue = redis.call('lrange', KEYS[i], 0, -1)
    elseif what == 'string' then
        token = redis.call('get', KEYS[i])
        if not tonumber(token) then
            token = '0'
        end
    end
end
return {kind, redis.call('pttl', lock), fields, queue, token}
