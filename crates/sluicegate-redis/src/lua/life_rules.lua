-- Rules of the TTLs of keys.

-- Returns the TTL in ms of a key whose value is useful for `lasts`. No key expires before that.
-- in   lasts in µs
-- out  lasts, at most MAX; lives in ms
function LIFE(lasts, lives)
  if lasts > MAX then lasts = MAX end
  lives = math.ceil(lasts / 1000) + 1
end
