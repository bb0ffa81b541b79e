-- Sluicegate: gives a reservation back, if nothing was charged after it.
--
-- in    KEYS[i]                  packed states that the reservation changed
--       ARGV[2i - 1], ARGV[2i]   as it left them, and as it found them (empty: they were absent)
-- out   1 given back, 0 lost
-- A life that was long enough for what the reservation left is long enough for less.

for index, key in ipairs(KEYS) do
  if redis.pcall('GET', key) ~= ARGV[2 * index - 1] then return 0 end
end
for index, key in ipairs(KEYS) do
  local before = ARGV[2 * index]
  if before == '' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, before, 'KEEPTTL')
  end
end
return #KEYS > 0 and 1 or 0
