-- Rules of the lives of keys.

-- Says for how many ms a key lives whose value is of use for so long: none expires before that.
-- in   lasts in µs
-- out  lasts, at most MAX; lives in ms
function LIFE(lasts, lives)
  if lasts > MAX then lasts = MAX end
  lives = math.ceil(lasts / 1000) + 1
end
