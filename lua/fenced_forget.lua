-- Deletes the counter of a fenced lock that is used no more: unless somebody holds the lock, or has drawn a later token.
--
-- KEYS[1]  lock   hash of the lock
-- KEYS[2]  token  counter of the fencing tokens
-- ARGV[1]  last   the token that must be the last one: a decimal number
-- reply    1      deleted: the next token is 1
-- reply    0      there is no counter
-- reply    -1     the lock is held; nothing was changed
-- reply    -2     another token is the last one; nothing was changed

local lock, token = KEYS[1], KEYS[2]

if redis.call('hlen', lock) > 0 then
    return -1
end
local last = redis.call('get', token)
if not last then
    return 0
end
-- As text: numbers are exact up to 2^53 only here.
if last ~= ARGV[1] then
    return -2
end
redis.call('del', token)
return 1
