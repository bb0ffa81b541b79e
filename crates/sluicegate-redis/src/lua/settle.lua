-- Settling, giving back and renewing records.
--
-- reads   what FIND_RECORDS and LEAVE_RECORDS make
-- makes   hold.give_back, hold.move, hold.found, hold.settle, hold.settle_by, hold.give_returned, hold.write_inline,
--         hold.finish

function SETTLE_RECORDS()
  -- Gives back at most this many units of a policy's charge. If it was the latest charge, restores the state
  -- before it.
  local function give(p, entry, most, leases, is_released)
    local units, at, unit, refill = unpack(HELD_UNITS, entry)
    local left, held = string.sub(entry, HELD_UNITS_SIZE + 1), stored(p)
    -- Compare what follows the heads: only the retention of a state, in its head, may differ.
    local is_last = held ~= '' and string.sub(left, HEAD_SIZE + 1, #held) == string.sub(held, HEAD_SIZE + 1)
    local second = p.bound
    if is_last and most >= units and not (second and p.holds[1]) then
      p.restored, p.given, p.changed = string.sub(left, #held + 1), units, true
    elseif p.kernel.give_back then
      local used = (p.slots or second) and leases.used_beyond(p)
      if second then
        if is_released then
          -- None of it has drained.
          p.kernel.refund(second, min(most, units))
        else
          p.kernel.give_back(second, min(most, units), at, unit, refill, false)
        end
        leases.pin(p)
      end
      p.kernel.give_back(p, min(most, units), at, unit, refill, is_last)
      if second then
        p.changed = p.changed or is_released
        p.kernel.lower_to(p, second.deficit)
      end
      if used and p.changed then
        leases.pin(p)
        p.given = used - leases.used_beyond(p)
      end
    end
  end

  -- Gives back the units of a record, and removes the record, so that nothing is given back twice.
  function hold.give_back(p, leases)
    local found = record_of(p.subject.part)
    if not found.is_removed then
      found.is_removed = true
      if found.is_there then
        if found.is_inline then
          inline.remove(p.subject.part)
        else
          land(p.subject.part)
          redis.call('DEL', key_of(p.subject.part))
        end
      end
    end
    local entry = found.is_there and (p.found or p.kernel.counts_records) and found.entries[p.id]
    if entry then give(p, entry, p.cost, leases) end
  end

  -- Moves a policy's held units to the slot for the new lifetime.
  function hold.move(p, leases)
    local found = record_of(p.subject.part)
    local is_restamped = p.restamped
    -- Entries changed by earlier returns are still written.
    p.changed, p.restamped = p.key and p.changed, nil
    local entry = found.is_there and not found.is_settled and found.entries[p.id]
    if not entry or not p.bound or is_restamped then return end
    local units, at, unit, refill, slot = unpack(HELD_UNITS, entry)
    local moved = leases.move(p, slot, units, hold.ends, hold.tag)
    if moved then
      found.moved = found.moved or {}
      found.moved[p.id] = pack(HELD_UNITS, units, at, unit, refill, moved) .. string.sub(entry, HELD_UNITS_SIZE + 1)
    end
  end

  -- Returns the entries of a record, with those that were moved.
  local function moved_entries(found)
    local content, entries, place = found.content, {}, 1
    if not found.moved then return content end
    while place < #content do
      local policy = string.sub(content, place, place + ID_SIZE - 1)
      local length, from = unpack(LENGTH, content, place + ID_SIZE)
      local entry = found.moved[policy] or string.sub(content, from, from + length - 1)
      entries[#entries + 1], place = policy .. pack(LENGTH, length) .. entry, from + length
    end
    return table.concat(entries)
  end

  -- Returns whether the id has a record that is live or settled.
  function hold.found()
    local is_there = HOLD_UNKNOWN
    for part = 1, parts do
      local found = record_of(part)
      if found.is_there and not found.is_settled then return HOLD_LIVE end
      if found.is_there then is_there = HOLD_SETTLED end
    end
    return is_there
  end

  -- Gives back unused units, or charges additional ones; returns false if no state can hold that.
  function hold.settle(p, leases, admit)
    local found = record_of(p.subject.part)
    if not found.is_there or found.is_settled then return true end
    return hold.settle_by(found.entries[p.id], p, p.cost, leases, admit)
  end

  -- Settles by an entry of a record, if the record has one.
  function hold.settle_by(entry, p, used, leases, admit)
    local units, _, _, _, slot = 0, nil, nil, nil, nil
    if entry then units, _, _, _, slot = unpack(HELD_UNITS, entry) end
    if used == AS_CHARGED then used = units end
    -- A permit is always given back.
    if p.kernel.counts_records then used = 0 end
    if used > units and not admit(p, used - units, 0) then return false end
    local is_released = p.bound and leases.release(p, slot, units)
    if is_released then p.changed = true end
    if used < units then
      p.gives = true
      if p.found or p.kernel.counts_records then give(p, entry, units - used, leases, is_released) end
    end
    if p.bound then
      leases.pin(p)
      leases.drop(p)
    end
    return true
  end

  -- Gives back the units of a policy that a member of the set holds.
  function hold.give_returned(p, member, leases, admit)
    local entry = read(member, HOLD_HEAD_SIZE + 1)[p.id]
    if not p.kernel.counts_records then
      hold.settle_by(entry, p, 0, leases, admit)
    else
      p.all, p.changed = max(0, p.all - (entry and unpack(HELD_UNITS, entry) or 0)), true
    end
  end

  -- Returns the units given back to a policy, in the form of the reply and of a record.
  local function given_of(p, record)
    local number = pack(NUMBER, p.gives and (p.given or 0) or AS_CHARGED)
    if operation == SETTLE and hold.found() == HOLD_SETTLED then return record.entries[p.id] or number end
    return number
  end

  -- Returns the entries of a settled record.
  local function settled_entries(s, record)
    local entries = {}
    for index, p in ipairs(s.policies) do
      entries[index] = p.id .. pack(LENGTH, NUMBER_SIZE) .. given_of(p, record)
    end
    return table.concat(entries)
  end

  -- Updates the inline records, before the value is written.
  function hold.write_inline(subjects)
    for part, s in ipairs(subjects) do
      local record = s.is_inline and not hold.leaves and record_of(part)
      if s.is_inline and hold.leaves then
        inline.put(part, min(now + life, MAX), (entries_of(s)))
      elseif not record or record.is_settled or hold.gives_back then
        -- The record stays as it is, or was removed.
      elseif operation == RENEW then
        inline.put(part, min(now + life, MAX), moved_entries(record))
      elseif says_nothing(subjects) then
        -- A settlement without used units isn't answered again when repeated, so its record isn't needed.
        inline.remove(part)
      else
        inline.put(part, record.ends, settled_entries(s, record))
      end
    end
  end

  -- Writes the other records, and returns what was found and the units given back.
  function hold.finish(subjects)
    local given = {}
    for part, s in ipairs(subjects) do
      local record = record_of(part)
      for _, p in ipairs(s.policies) do given[#given + 1] = given_of(p, record) end
      if record.is_there and not record.is_settled and not record.is_inline then
        land(part)
        if operation == SETTLE and says_nothing(subjects) then
          redis.call('DEL', key_of(part))
        elseif operation == SETTLE then
          put(part, record.ends, record.group, settled_entries(s, record), false)
        else
          put(part, min(now + life, MAX), s.group, moved_entries(record), is_in_set(record))
        end
      end
    end
    return hold.found(), table.concat(given)
  end
end
