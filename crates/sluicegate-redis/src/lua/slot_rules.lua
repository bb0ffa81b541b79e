-- Rules of slots, the Lua port of kernel/slot.rs. A slot is a table of its end, the units held, a tag, and the booked
-- share of the rate in millionths. Slots are in the order of their ends.

-- Reads slots.
-- in   value, place, count; newest: the time of the state that has them, in µs
-- out  slots: false if they are invalid; units: the sum of all; share: the sum of all
function READ_SLOTS(value, place, count, newest, slots, units, share)
  local last, next = newest, place
  slots, units, share = {}, 0, 0
  for index = 1, count do
    local ends, some, tag, part
    ends, some, tag, part, next = unpack(LEASE_SLOT, value, next)
    units, share = units + some, share + part
    local is_in_order = ends >= last and ends > newest and ends <= MAX
    if not is_in_order or some + part == 0 or units > MAX or tag > MAX or share > WHOLE_RATE then
      slots = false
      break
    end
    slots[index], last = { ends, some, tag, part }, ends
  end
end

-- Returns the end of the slot for a hold of this life. Holds of similar lives share a slot, so few slots are
-- enough.
-- in   now and life in µs
-- out  ends in µs
function SLOT_END(now, life, ends)
  local fraction, exponent = math.frexp(life)
  local width = 2 ^ (exponent - (fraction == 0.5 and 2 or 1))
  if width < 1 then width = 1 end
  ends = math.ceil((now + life) / width) * width
end

-- Returns the end of that slot, and its tag.
-- in   now and life in µs; one, two and three are the id of the hold
-- out  ends in µs, tag
function SLOT_OF(now, life, one, two, three, ends, tag)
  SLOT_END(now, life, ends)
  tag = one + two + three + ends % 2 ^ 50
end

-- Adds units to the slot with this end, to a new one, or to one that ends later.
-- in   slots, units, ends and tag of the new one
-- out  slots, slot: the tag of the slot that has them; unchanged if there is none for them
function ADD_TO_SLOT(slots, units, ends, tag, slot)
  local place, is_free = 1, #slots < HELD_SLOTS
  for index = 1, #slots do
    local each = slots[index]
    if each[3] == tag then is_free = false end
    if each[1] < ends then place = place + 1 end
  end
  local each = slots[place]
  if each and (each[1] == ends or not is_free) then
    each[2], slot = each[2] + units, each[3]
  elseif is_free then
    table.insert(slots, place, { ends, units, tag, 0 })
    slot = tag
  end
end

-- Takes units out of the slot with this tag, if they are in it.
-- in   slots, units, tag
-- out  slots, ends: end of the slot; unchanged if they aren't in it
function TAKE_FROM_SLOT(slots, units, tag, ends)
  for index = 1, #slots do
    local each = slots[index]
    if each[3] == tag and each[2] >= units then
      each[2], ends = each[2] - units, each[1]
      if each[2] == 0 then table.remove(slots, index) end
      break
    end
  end
end

-- Returns the time in which a bucket has drained until then, while this share of its rate is booked.
-- in   at in µs, share in millionths
-- out  drained in µs
function DRAINED_UNTIL(at, share, drained)
  local rest = at % WHOLE_RATE
  drained = at - ((at - rest) / WHOLE_RATE * share + math.ceil(rest * share / WHOLE_RATE))
end
