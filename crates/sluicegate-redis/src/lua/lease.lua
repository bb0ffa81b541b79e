-- The outstanding units of a policy, leased or held. The Lua port of kernel/leased.rs, kernel/bound.rs and
-- step/lease.rs of the core.

function LEASES()
  local leases = {}

  local function total(slots)
    local units = 0
    for _, slot in ipairs(slots or {}) do units = units + slot[2] end
    return units
  end

  local function booked(slots)
    local share = 0
    for _, slot in ipairs(slots) do share = share + slot[4] end
    return share
  end

  -- Makes the state newer by the time in which it doesn't drain until then, because a share of its rate is booked.
  local function stand_still(p, slots, at)
    local share = booked(slots)
    if share > 0 then
      local before, drained
      DRAINED_UNTIL(p.newest, share, before)
      DRAINED_UNTIL(at, share, drained)
      p.newest = at - (drained - before)
    end
  end

  -- Counts at least the outstanding units as used. In the second bound of a policy with held units (p.bound),
  -- these include the held ones (p.holds).
  local function pin(p)
    local units = total(p.slots)
    if units > 0 then p.kernel.pin(p, units) end
    if p.bound then p.kernel.pin(p.bound, units + total(p.holds)) end
  end

  leases.pin = pin

  -- Returns the units that count as used in addition to the leased ones.
  function leases.used_beyond(p)
    return p.kernel.used_beyond(p, total(p.slots))
  end

  -- Returns the second bound, which is like the policy except for its state.
  local function second_of(p, deficit, unit)
    return setmetatable({ found = true, newest = p.newest, held = deficit, then_unit = unit, slots = false },
      { __index = p })
  end

  -- Reads the state, as if nothing were outstanding, and the slots after it. With held units, the second
  -- bound and the number of leased slots come before the slots.
  function leases.read(p, whole, position, length, is_held)
    local finish = position + length
    local place = position + LISTED_HEAD_SIZE + p.kernel.numbers_size
    local from = place + (is_held and PAIR_SIZE or 0)
    local slots = (finish - from) / LEASE_SLOT_SIZE
    if slots < 1 or slots > LEASE_SLOTS + (is_held and HELD_SLOTS or 0) or slots % 1 > 0 then return false end
    local plain = sub(whole, position, position + (HEAD_SIZE - 1)) .. sub(whole, position + LISTED_HEAD_SIZE, place - 1)
    if not p.kernel.read(p, plain, 1) then return false end
    local deficit, leased = nil, slots
    if is_held then
      deficit, leased = unpack(PAIR, whole, place)
      if deficit > MAX or deficit < p.held or leased > LEASE_SLOTS or slots - leased < 1
        or slots - leased > HELD_SLOTS then
        return false
      end
    end
    local of_leases, of_holds, units, share = nil, nil, nil, nil
    local from_held, held = from + leased * LEASE_SLOT_SIZE, slots - leased
    READ_SLOTS(whole, from, leased, p.newest, of_leases, units, share)
    READ_SLOTS(whole, from_held, held, p.newest, of_holds, units, share)
    if not of_leases or not of_holds then return false end
    if leased > 0 then p.slots = of_leases end
    if is_held then
      p.holds, p.bound = of_holds, second_of(p, deficit, p.then_unit)
      -- The state as a plain one, and the part before the slots of held units.
      p.plain = pack(BUCKET_ENTRY, p.head, p.newest, p.held, p.then_unit)
      p.before_holds = sub(whole, position + LISTED_HEAD_SIZE, from + leased * LEASE_SLOT_SIZE - 1)
      p.was_held = {}
      for index, slot in ipairs(of_holds) do p.was_held[index] = { spread(slot) } end
    end
    return true
  end

  -- Brings the state to the evaluation time, with these slots.
  local function stand_with(p, slots, pins)
    if p.newest > ahead then
      -- Leases end no later than the longest one that begins now.
      for _, slot in ipairs(slots) do slot[1] = min(slot[1], now + LONGEST_LEASE) end
    else
      local at = max(now, p.newest)
      while slots[1] and slots[1][1] <= at do
        if p.kernel.drains then
          stand_still(p, slots, slots[1][1])
          local stands = p.kernel.stand(p, slots[1][1])
          if not stands then return stands end
          p.kernel.pin(p, total(slots))
        end
        table.remove(slots, 1)
      end
      stand_still(p, slots, at)
    end
    local stands = p.kernel.stand(p, now)
    if stands and (slots[1] or pins) then p.kernel.pin(p, total(slots)) end
    return stands
  end

  function leases.stand(p)
    local second, live = p.bound, {}
    if second then
      local all = {}
      for _, slot in ipairs(p.holds) do
        if p.newest > ahead then slot[1] = min(slot[1], now + LONGEST_HELD) end
        if slot[1] > max(now, p.newest) or p.newest > ahead then live[#live + 1] = slot end
        all[#all + 1] = { spread(slot) }
      end
      for _, slot in ipairs(p.slots or {}) do all[#all + 1] = { spread(slot) } end
      table.sort(all, function(one, other) return one[1] < other[1] end)
      local stands = stand_with(second, all)
      if not stands then return stands end
    end
    local stands = stand_with(p, p.slots or {}, false)
    if second and stands then
      -- Units of a full bucket are no longer held.
      if live[1] and p.deficit > 0 then
        p.holds = live
        p.kernel.pin(p, total(p.slots))
      else
        p.holds, p.bound = nil, nil
      end
    end
    return stands
  end

  -- Charges both bounds; returns false if one can't be charged.
  function leases.admit(p, cost, act_in)
    local second = p.bound
    if second and act_in > 0 then
      -- Pinned units can't drain, so they may still be there then.
      local pinned = total(p.slots) + total(p.holds)
      p.kernel.refund(second, pinned)
      if not p.kernel.admit(second, cost + pinned, act_in) then return false end
    elseif second and not p.kernel.admit(second, cost, 0) then
      return false
    end
    return p.kernel.admit(p, cost, act_in)
  end

  -- Adds units to a slot, and returns its tag.
  local function add(slots, units, ends, tag)
    local slot
    ADD_TO_SLOT(slots, units, ends, tag, slot)
    return slot
  end

  -- Takes units out of the slot with this tag, if they are in it, and returns its end.
  local function remove(slots, tag, units)
    local ends
    TAKE_FROM_SLOT(slots, units, tag, ends)
    return ends
  end

  -- Puts the charged units into a slot with this end, if the policy allows it.
  function leases.hold(p, ends, tag)
    if not p.kernel.held or p.shaper or p.smooth or ends <= p.at or ends > MAX then return end
    if not p.bound then
      p.kernel.pin(p, total(p.slots))
      p.holds, p.bound = {}, second_of(p, p.deficit, p.unit)
      p.kernel.stand(p.bound, now)
    end
    p.slot = add(p.holds, p.taken, ends, tag)
    pin(p)
  end

  -- Takes held units out of their slot, and returns whether they were in it.
  function leases.release(p, tag, units)
    return p.bound and remove(p.holds, tag, units) and true or false
  end

  -- Moves held units to a slot with this end, in the stored state, and returns its tag.
  function leases.move(p, tag, units, ends, new_tag)
    if ends <= p.at or ends > MAX then return end
    local is_there = false
    for _, slot in ipairs(p.holds) do is_there = is_there or slot[3] == tag and slot[2] >= units end
    local was = is_there and remove(p.was_held, tag, units)
    if not was or was == ends then return end
    local moved = add(p.was_held, units, ends, new_tag)
    if not moved then return end
    local numbers = { p.before_holds }
    for place, slot in ipairs(p.was_held) do numbers[place + 1] = pack(LEASE_SLOT, spread(slot)) end
    numbers = table.concat(numbers)
    local head = sub(p.value, p.place[1], p.place[1] + HEAD_SIZE - 1)
    p.restored, p.changed = head .. pack(LENGTH, #numbers) .. numbers, true
    return moved
  end

  -- Removes the second bound if no slot of held units is left.
  function leases.drop(p)
    if p.bound and not p.holds[1] then p.holds, p.bound = nil, nil end
  end

  -- Applies a holder's report on the units that were leased in a slot.
  function leases.report(p, tag, spent, returned)
    for place, slot in ipairs(p.slots or {}) do
      if slot[3] == tag then
        returned = min(returned, slot[2])
        local over = returned + min(spent, slot[2] - returned)
        if over > 0 then
          slot[2] = slot[2] - over
          if slot[2] + slot[4] == 0 then table.remove(p.slots, place) end
          if returned > 0 then
            p.kernel.refund(p, returned)
            if p.bound then p.kernel.refund(p.bound, returned) end
          end
          pin(p)
          p.changed = true
        end
        return
      end
    end
  end

  -- Returns the first slot with this end (1) or this tag (3), and its place.
  local function find(slots, which, number)
    for place, slot in ipairs(slots) do
      if slot[which] == number then return slot, place end
    end
  end

  -- Returns whether the slot with this tag ends then, or can be opened.
  local function has_room(slots, ends, tag)
    local slot = find(slots, 3, tag)
    if slot then return slot[1] == ends end
    return #slots < LEASE_SLOTS
  end

  -- Returns whether the second bound can be charged too.
  local function has_second(p, units)
    local second = p.bound
    return not second or units <= floor(MAX / p.unit) and second.deficit <= MAX - units * p.unit
  end

  -- Adds to the slot with this tag, or opens it.
  local function add_leased(slots, ends, units, tag, share)
    local slot = find(slots, 3, tag)
    if slot then
      slot[2], slot[4] = slot[2] + units, slot[4] + share
    else
      local place = 1
      while slots[place] and slots[place][1] <= ends do place = place + 1 end
      table.insert(slots, place, { ends, units, tag, share })
    end
  end

  -- Leases units of all charged policies, or of none.
  function leases.grant(policies, want, width, tag)
    local ends, times, is_any = now - now % width + LEASE_AHEAD * width, want, false
    for _, p in ipairs(policies) do
      if p.cost > 0 then
        is_any = true
        times = min(times, floor(floor(p.kernel.remaining(p) / LEASE_SHARE) / p.cost))
        if p.finish then ends = min(ends, p.finish) end
      end
    end
    if not is_any or times == 0 or ends > MAX then return end
    for _, p in ipairs(policies) do
      local slot = p.cost > 0 and find(p.slots or {}, 1, ends)
      if slot then
        tag = slot[3]
        break
      end
    end
    for _, p in ipairs(policies) do
      if p.cost > 0 then
        p.slots = p.slots or {}
        if ends <= p.at or not has_room(p.slots, ends, tag) or not has_second(p, times * p.cost) then return end
      end
    end
    for _, p in ipairs(policies) do
      if p.cost > 0 then
        leases.admit(p, times * p.cost, 0)
        add_leased(p.slots, ends, times * p.cost, tag, 0)
      end
    end
  end

  -- Books a share of the rate with some units, or nothing. pace has the wanted and the minimum share, and the
  -- maximum of all. Then follow slot, units and share of the earlier lease that this one carries on or replaces.
  function leases.pace(p, units, width, tag, pace)
    local ends, share, least, earlier = now - now % width + LEASE_AHEAD * width, pace[1], pace[2], pace[6]
    local slots, free, moved = {}, max(0, pace[3] - booked(p.slots or {})), 0
    for place, slot in ipairs(p.slots or {}) do slots[place] = { spread(slot) } end
    share = min(share, free + earlier)
    if earlier > 0 then
      local slot, place = find(slots, 3, pace[4])
      if not slot or slot[2] < pace[5] or slot[4] < earlier then return end
      slot[4] = slot[4] - min(earlier, share)
      if units == 0 then
        moved = pace[5]
        slot[2] = slot[2] - moved
      end
      if slot[2] + slot[4] == 0 then table.remove(slots, place) end
    end
    local there = find(slots, 1, ends)
    if there then tag = there[3] end
    if share < max(1, least) or ends <= p.at or ends > MAX or not has_room(slots, ends, tag) then return end
    if units > 0 then
      if p.kernel.ask(p, units) ~= 0 or not has_second(p, units) then return end
      leases.admit(p, units, 0)
    end
    add_leased(slots, ends, units + moved, tag, share)
    p.slots, p.changed = slots, true
  end

  -- Resets the state, but keeps the leases, which need nothing of the old state.
  function leases.forget(p)
    local live = {}
    for _, slot in ipairs(p.slots) do
      if p.newest > ahead then
        slot[1] = min(slot[1], now + LONGEST_LEASE)
        live[#live + 1] = slot
      elseif slot[1] > max(now, p.newest) then
        live[#live + 1] = slot
      end
    end
    p.slots, p.found, p.holds, p.bound = live, false, nil, nil
    local stands = p.kernel.stand(p, now)
    if stands then pin(p) end
    return stands
  end

  -- Returns the time until the last lease ends.
  function leases.lasts(p)
    return max(0, p.slots[#p.slots][1] - p.at)
  end

  function leases.write(p)
    local plain = p.kernel.write(p)
    local retention = max(string.byte(plain, HEAD_SIZE), LEASE_RETENTION) + 1
    local numbers = { sub(plain, HEAD_SIZE + 1) }
    if p.bound then numbers[2] = pack(PAIR, p.bound.deficit, #(p.slots or {})) end
    for _, slots in ipairs({ p.slots or {}, p.holds or {} }) do
      for _, slot in ipairs(slots) do numbers[#numbers + 1] = pack(LEASE_SLOT, spread(slot)) end
    end
    numbers = table.concat(numbers)
    return (p.bound and p.held_id or p.leased_id) .. string.char(retention) .. pack(LENGTH, #numbers) .. numbers
  end

  return leases
end
