-- Writes a key in the name of a fencing token, unless a newer token has been here before.
--
-- KEYS[1]    data     what is written
-- KEYS[2]    newest   newest token that was let through, in the slot of the data
-- ARGV[1]    fencing  the writer's token: a decimal number from 1 on, without leading zeros
-- ARGV[2]    keep     milliseconds from now until the newest token is forgotten, 0 for never
-- ARGV[3]    write    SET, HSET, DEL, or NONE to be let through and write nothing
-- ARGV[4]    expire   for SET: milliseconds until the data expires, 0 for never
-- ARGV[5..]  part     for SET the value; for HSET fields and their values in turn
-- reply      nil      let through, and written
-- reply      string   refused: the newest token; nothing was changed
--
-- Equal tokens are one holder's, who may write as often as it likes. The newest token is set before the data: should the
-- write fail, for a wrong type or for what the user may not do, then nobody has been let through by it who should not be.

local data, newest = KEYS[1], KEYS[2]
local fencing, keep, write, expire = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- As text: numbers are exact up to 2^53 only here.
local function older(a, b)
    if #a ~= #b then
        return #a < #b
    end
    return a < b
end

local known = redis.call('get', newest)
if known then
    if not known:find('^[1-9]%d*$') then
        return redis.error_reply('ERR ' .. newest .. ' must hold a fencing token, and holds something else')
    end
    if older(fencing, known) then
        return known
    end
end

if keep == '0' then
    redis.call('set', newest, fencing)
else
    redis.call('set', newest, fencing, 'px', keep)
end

if write == 'SET' and expire == '0' then
    redis.call('set', data, ARGV[5])
elseif write == 'SET' then
    redis.call('set', data, ARGV[5], 'px', expire)
elseif write == 'HSET' then
    for i = 5, #ARGV, 2 do
        redis.call('hset', data, ARGV[i], ARGV[i + 1])
    end
elseif write == 'DEL' then
    redis.call('del', data)
end
return nil
