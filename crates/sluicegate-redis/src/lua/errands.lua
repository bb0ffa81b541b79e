-- What is no decision, but goes the same way.

-- Gives a reservation back, if nothing was charged after it. The program has, for each key, the
-- packed states as the reservation left them and as it found them (empty: they were absent), each
-- after its length.
if lane == CANCEL_LANE then
  local place, changes = ERRAND, {}
  for index = 1, keys do
    local states = {}
    for each = 1, 2 do
      local length = unpack(WORD_LENGTH, program, place)
      place = place + WORD_LENGTH_SIZE
      states[each] = string.sub(program, place, place + length - 1)
      place = place + length
    end
    changes[index] = states
    local found = call('GET', all_keys[first + index - 1])
    if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then return found end
    if found ~= states[1] then return '-', '' end
  end
  -- A life that was long enough for what the reservation left is long enough for less.
  for index, states in ipairs(changes) do
    if states[2] == '' then
      redis.call('DEL', all_keys[first + index - 1])
    else
      redis.call('SET', all_keys[first + index - 1], states[2], 'KEEPTTL')
    end
  end
  return '+', ''
end

-- Does what every decision needs, and fails as a decision would. The key is one that no limit uses.
if lane == READY_LANE then
  redis.call('SET', key, '', 'PX', 1000)
  return '+', ''
end

local value = call('GET', key)
