-- Sets or removes a setting, and logs that. A script of its own, because settings change seldom.
--
-- Reads and writes: KEYS are the settings (a hash), the ends of those that end (a sorted set), and the log (a stream).
-- ARGV has seven words. The first are the name, 1 with a value or 0 without one, and the value. Then follow its lifetime
-- in microseconds (0: no end), the remark, and the maximum numbers of settings and of logged changes.
-- A value is stored after its times: `SINCE ENDS VALUE`, in microseconds since the epoch; ENDS is 0 without an end.
-- The reply is 'full' if there are too many settings, and nil if there was nothing to remove. Otherwise it has the place
-- in the log, the time, the stored value, and the one before. A missing value is ''.

local settings, ends, log = KEYS[1], KEYS[2], KEYS[3]
local name, has_value, value, lasts, remark = ARGV[1], ARGV[2] == '1', ARGV[3], tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Some more than one, so that all that have ended go while others are set.
for _, ended in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do
  redis.call('HDEL', settings, ended)
  redis.call('ZREM', ends, ended)
end

local before = redis.call('HGET', settings, name) or ''
local before_ends = tonumber(string.match(before, '^%d+ (%d+) ') or '0')
if before_ends > 0 and before_ends <= now then before = '' end

local stored = ''
if has_value then
  if before == '' and redis.call('HLEN', settings) >= tonumber(ARGV[6]) then return 'full' end
  local until_then = lasts > 0 and now + lasts or 0
  stored = string.format('%.0f %.0f ', now, until_then) .. value
  redis.call('HSET', settings, name, stored)
  if lasts > 0 then
    redis.call('ZADD', ends, string.format('%.0f', until_then), name)
  else
    redis.call('ZREM', ends, name)
  end
else
  redis.call('HDEL', settings, name)
  redis.call('ZREM', ends, name)
  if before == '' then return nil end
end

-- Without a setting that stays, the keys expire with the last one.
local last = redis.call('ZREVRANGE', ends, 0, 0, 'WITHSCORES')[2]
if last then
  local expires = string.format('%.0f', math.ceil(last / 1000) + 1)
  redis.call('PEXPIREAT', ends, expires)
  if redis.call('HLEN', settings) == redis.call('ZCARD', ends) then
    redis.call('PEXPIREAT', settings, expires)
  else
    redis.call('PERSIST', settings)
  end
else
  redis.call('PERSIST', settings)
end

local place = redis.call(
  'XADD', log, 'MAXLEN', ARGV[7], '*', 'at', string.format('%.0f', now), 'name', name, 'value', stored,
  'before', before, 'remark', remark
)
return { place, string.format('%.0f', now), stored, before }
