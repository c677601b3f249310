-- Shows that scripts may run here, and what time the server has.
--
-- reply  integer  the server's time in milliseconds since the epoch

local time = redis.call('time')
return time[1] * 1000 + math.floor(time[2] / 1000)
