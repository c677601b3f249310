-- Renews the read holds of many owners, each only where its owner still has some.
--
-- KEYS[1..]  lock   hashes of the locks
-- ARGV[1]    lease  milliseconds that each lock and read hold has left at least
-- ARGV[2]    strict 1 to take a lock without a mode for one that the owner does not hold, 0 not to look
-- ARGV[3..]  owner  for each lock the field of the owner, then what the keys of its read holds begin with
-- reply      list   for each lock: 1 renewed, 0 not held by this owner any more
--
-- Other owners' read holds are not touched: those of a reader that crashed must end. A key that is no hash any more is one
-- lost lock; any other error says nothing about the locks, and ends all of it.

local lease, strict = tonumber(ARGV[1]), ARGV[2] == '1'

local function renew(key)
    if redis.call('pttl', key) < lease then
        redis.call('pexpire', key, lease)
    end
end

local renewed = {}
for i, lock in ipairs(KEYS) do
    local owner, marker = ARGV[2 * i + 1], ARGV[2 * i + 2]
    local found = redis.pcall('hmget', lock, owner, 'mode')
    if found.err and not found.err:find('WRONGTYPE', 1, true) then
        return found
    end
    if found[1] and not (strict and not found[2]) then
        for n = 1, tonumber(found[1]) do
            renew(marker .. ':' .. n)
        end
        renew(lock)
        renewed[i] = 1
    else
        renewed[i] = 0
    end
end
return renewed
