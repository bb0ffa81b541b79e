-- Rules of the TTLs of keys, and of the retention of entries.

-- Returns the retention of an entry.
-- in   useful: the time from its newest time for which it is useful, in µs
-- out  retention: the smallest number for which 2^retention is at least that
function RETENTION(useful, retention)
  local span = 1
  retention = 0
  while span < useful do retention, span = retention + 1, 2 * span end
end

-- Returns the TTL in ms of a key whose value is useful for `lasts`. No key expires before that.
-- in   lasts in µs
-- out  lasts, at most MAX; lives in ms
function LIFE(lasts, lives)
  if lasts > MAX then lasts = MAX end
  lives = math.ceil(lasts / 1000) + 1
end
