-- Takes a fair lock for an owner that holds nothing of it yet, or gives it a place in the queue.
--
-- KEYS[1]  lock      hash of the lock
-- KEYS[2]  queue     list of the owners that wait, the next one first
-- KEYS[3]  timeouts  sorted set of the same owners, by the time in ms since the epoch at which each counts as dead
-- KEYS[4]  latch     set when this request was settled: then it must not take effect any more
-- ARGV[1]  lease     milliseconds until the lock expires by itself
-- ARGV[2]  owner     field of the owner
-- ARGV[3]  wait      milliseconds for which a waiter counts as alive
-- ARGV[4]  stand     1 to stand in the queue, 0 to ask only
-- ARGV[5]  strict    1 to refuse a lock of another kind, 0 to wait for it as Redisson does
-- reply    nil       taken: the owner's count is 1
-- reply    integer   not taken: milliseconds until it is worth asking again without a message, -1 when not known, -2 when
--                    the lock has expired while the script ran, where the server's clock goes on meanwhile (miniredis)
-- reply    error     WRONGTYPE and what the hash is instead; nothing was changed
--
-- While the lock is free the one whose turn it is will have it in a moment, which moves the times of death: so nobody is
-- sent away for more than a second then.
--
-- now is the server's, so that no client's wrong clock declares a live waiter dead. A waiter behind a head that may be
-- dead is told to come back when the head is to be dropped, or after that second: otherwise it would have to spin.

local lock, queue, timeouts, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, owner, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])
local stand, strict = ARGV[4] == '1', ARGV[5] == '1'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A lock of this kind has one field.
local fields = redis.call('hlen', lock)
if strict and fields > 1 then
    local mode = redis.call('hget', lock, 'mode')
    local kind = mode and 'read/write lock in mode ' .. mode or 'grouped multi-lock, or no lock'
    return redis.error_reply('WRONGTYPE the hash is a ' .. kind)
end

-- Drops heads that are dead; the walk ends at one that is alive, or has no time of death.
local head = redis.call('lindex', queue, 0)
while head do
    local death = tonumber(redis.call('zscore', timeouts, head) or now + 1)
    if death > now then
        break
    end
    redis.call('zrem', timeouts, head)
    redis.call('lpop', queue)
    head = redis.call('lindex', queue, 0)
end

local barred = redis.call('exists', latch) == 1
if not barred and fields == 0 and (not head or head == owner) then
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, owner)
    for _, waiter in ipairs(redis.call('zrange', timeouts, 0, -1)) do
        redis.call('zincrby', timeouts, -wait, waiter)
    end
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return nil
end
if not barred and redis.call('hexists', lock, owner) == 1 then
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return nil
end

if stand and not barred and not redis.call('zscore', timeouts, owner) then
    local last = redis.call('lindex', queue, -1)
    local death = last and redis.call('zscore', timeouts, last)
    local before = redis.call('pttl', lock)
    if death then
        before = tonumber(death) - now
    end
    redis.call('zadd', timeouts, string.format('%.0f', before + wait + now), owner)
    redis.call('rpush', queue, owner)
    head = head or owner
end

local ask = redis.call('pttl', lock)
if head and head ~= owner then
    local death = redis.call('zscore', timeouts, head)
    if death then
        local left = math.max(0, tonumber(death) - now)
        if fields == 0 then
            ask = math.min(left, 1000)
        elseif ask < 0 or left < ask then
            ask = left
        end
    end
end
if fields == 0 and ask < 0 then
    return -1 -- the head has no time of death
end
return ask
