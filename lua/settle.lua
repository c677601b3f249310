-- Finds out whether a request whose answer was lost took effect, and bars it from doing so later.
--
-- KEYS[1]  lock   hash of the lock
-- KEYS[2]  latch  of the lost request
-- ARGV[1]  owner  field of the owner
-- ARGV[2]  bar    milliseconds for which the request is barred
-- reply    integer  hold count of the owner, 0 when it has none
--
-- A command can sit in a socket, a proxy or a frozen server long after its client gave up. The latch makes the answer
-- of this script final.

redis.call('set', KEYS[2], '1', 'px', ARGV[2])
return tonumber(redis.call('hget', KEYS[1], ARGV[1]) or 0)
