-- Renews the leases of many locks, each only where its owner still holds it.
--
-- KEYS[1..]  lock   hashes of the locks
-- ARGV[1]    lease  milliseconds that each lock has left at least
-- ARGV[2]    strict 1 to take a read/write lock for one that the owner does not hold, 0 not to look
-- ARGV[3..]  owner  field of the owner, one for each lock
-- reply      list   for each lock: 1 renewed, 0 not held by this owner any more
--
-- A key that is no hash any more is one lost lock, and must not end the renewal of the others; any other error says nothing
-- about the locks, and ends all of it.
-- A lease that lasts longer is left alone, so that a renewal which arrives late can't shorten one that was given since.

local lease, strict = tonumber(ARGV[1]), ARGV[2] == '1'
local renewed = {}
for i, lock in ipairs(KEYS) do
    local found = redis.pcall('hmget', lock, ARGV[i + 2], 'mode')
    if found.err and not found.err:find('WRONGTYPE', 1, true) then
        return found
    end
    if found[1] and not (strict and found[2]) then
        if redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, lease)
        end
        renewed[i] = 1
    else
        renewed[i] = 0
    end
end
return renewed
