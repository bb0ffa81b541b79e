-- Sets or removes a setting, and logs that. A script of its own, because settings change seldom.
--
-- Reads and writes: KEYS are the settings (a hash), the ends of those that end (a sorted set), and the log (a stream).
-- ARGV has seven words: the name, 1 with a value or 0 without one, and the value. Then follow its lifetime
-- in microseconds (0: no end), the remark, and the maximum numbers of settings and of logged changes.
-- A value is stored after its times: `SINCE ENDS VALUE`, in microseconds since the epoch; ENDS is 0 without an end.
-- The reply is 'full' if there are too many settings, and nil if there was nothing to remove. Or it has the place
-- in the log, the time, the stored value, and the one before. A missing value is ''.

local settings, ends, log = KEYS[1], KEYS[2], KEYS[3]
local name, has_value, value, lasts, remark = ARGV[1], ARGV[2] == '1', ARGV[3], tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Some more than one, so that all that have ended go while others are set.
local now_text = string.format('%.0f', now)
for _, ended in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now_text, 'LIMIT', 0, 100)) do
  redis.call('HDEL', settings, ended)
  redis.call('ZREM', ends, ended)
end

local before = redis.call('HGET', settings, name) or ''
local before_ends = tonumber(string.match(before, '^%d+ (%d+) ') or '0')
if before_ends > 0 and before_ends <= now then before = '' end

local until_then = lasts > 0 and now + lasts or 0
local stored = has_value and string.format('%.0f %.0f ', now, until_then) .. value or ''
local is_full = redis.call('HLEN', settings) >= tonumber(ARGV[6])
if has_value and before == '' and is_full then return 'full' end
if not has_value and before == '' then
  redis.call('HDEL', settings, name)
  redis.call('ZREM', ends, name)
  return nil
end

-- First, because it may be refused: then nothing changes.
local place = redis.call(
  'XADD', log, 'MAXLEN', ARGV[7], '*', 'at', string.format('%.0f', now), 'name', name, 'value', stored,
  'before', before, 'remark', remark
)
if has_value then redis.call('HSET', settings, name, stored) else redis.call('HDEL', settings, name) end
if has_value and lasts > 0 then
  redis.call('ZADD', ends, string.format('%.0f', until_then), name)
else
  redis.call('ZREM', ends, name)
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

return { place, string.format('%.0f', now), stored, before }
