-- Units in flight: the members of the set of a subject, in the order of their ends (hold.lua).
--
-- reads   what FIND_RECORDS makes

-- Examines ended members that are still there, and selects those to give back.
--
-- makes   ended_of, is_marked, returned; hold.returning, hold.return_nothing, hold.forget_returned
function LOOK_AT_ENDED()
  local ended, returned = {}, {}
  -- Returns the first ended members of a part's set.
  local function ended_of(part)
    if not is_indexed then return {} end
    if not ended[part] then
      local live, most = '(' .. by_time .. pack(NUMBER, now + 1), HOLDS_ENDED
      if tally.subjects[part].returns then most = most + HOLDS_RETURNED end
      ended[part] = redis.call('ZRANGEBYLEX', set_of(part), '-', live, 'LIMIT', 0, most)
    end
    return ended[part]
  end

  local function is_marked(member)
    return string.sub(member, HOLD_HEAD_SIZE + 1, HOLD_HEAD_SIZE + ID_SIZE) == mark
  end

  -- Returns the members to give back now, and removes them from the ended ones.
  function hold.returning(part)
    local kept, gone = {}, {}
    for _, member in ipairs(ended_of(part)) do
      if is_marked(member) and #gone < HOLDS_RETURNED then
        gone[#gone + 1] = member
      elseif #kept < HOLDS_ENDED then
        kept[#kept + 1] = member
      end
    end
    ended[part], returned[part] = kept, gone
    return gone
  end

  -- Gives back nothing.
  function hold.return_nothing(part)
    local all = ended_of(part)
    while #all > HOLDS_ENDED do all[#all] = nil end
  end

  -- Removes the returned members from the set.
  function hold.forget_returned(part)
    local gone = returned[part]
    if gone and gone[1] then redis.call('ZREM', set_of(part), spread(gone)) end
  end
end

-- Counts a policy's units in flight.
--
-- makes   hold.ended_units, hold.is_over, hold.removable_units, hold.all_units, hold.end_of, hold.last_end
function COUNT_IN_FLIGHT()
  -- Returns the units of a policy that ended members hold.
  function hold.ended_units(p)
    if not p.ended_units then
      p.ended_units = 0
      for index, record in ipairs(ended_of(p.subject.part)) do
        if index <= HOLDS_ENDED then p.ended_units = p.ended_units + units_of(p, record) end
      end
    end
    return p.ended_units
  end

  -- Returns whether nothing is left in flight, not even the set, which exists as long as any record. Then no
  -- record can be counted out any longer.
  function hold.is_over(part)
    return is_indexed and tally.live(part) == 0 and not ended_of(part)[1] and not (returned[part]
      and returned[part][1])
  end

  -- Returns those units that a call with a new record removes.
  function hold.removable_units(p)
    local units = 0
    for _, record in ipairs(removable(p.subject.part)) do units = units + units_of(p, record) end
    return units
  end

  -- Returns the units that all records hold.
  function hold.all_units(p)
    local units, finish = 0, '(' .. behind
    for _, record in ipairs(redis.call('ZRANGEBYLEX', set_of(p.subject.part), '-', finish)) do
      units = units + units_of(p, record)
    end
    return units
  end

  -- Returns the time when this many of a policy's units have ended; the time when all have, if too many records
  -- must be examined.
  function hold.end_of(p, units)
    local part, finish = p.subject.part, '(' .. behind
    local at = #ended_of(part) + (returned[part] and #returned[part] or 0)
    local last = at + HOLDS_LOOKED_THROUGH
    while at < last do
      local some = min(16, last - at)
      local records = redis.call('ZRANGEBYLEX', set_of(part), '-', finish, 'LIMIT', at, some)
      for _, record in ipairs(records) do
        units = units - units_of(p, record)
        if units <= 0 then return end_of(record) end
      end
      if #records < some then break end
      at = at + some
    end
    return hold.last_end(p)
  end

  -- Returns the end of a policy's last units. If too many records must be examined, returns the end of the
  -- last record.
  function hold.last_end(p)
    local set, start, at, last = set_of(p.subject.part), '(' .. behind, 0, nil
    while at < HOLDS_LOOKED_THROUGH do
      -- Mostly it is the first.
      local some = at == 0 and 1 or 16
      local records = redis.call('ZREVRANGEBYLEX', set, start, '-', 'LIMIT', at, some)
      for _, record in ipairs(records) do
        last = last or end_of(record)
        if units_of(p, record) > 0 then return end_of(record) end
      end
      if #records < some then break end
      at = at + some
    end
    return last or 0
  end
end
