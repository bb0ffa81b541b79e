-- Holds: records of what was charged, by which it is settled or given back for as long as they live. A
-- subject's stand in one sorted set, as two members each, in the order of their bytes:
--   HELD_BY_TIME until id entries
--   HELD_BY_ID id until
-- An entry has kind and identity of a policy, the length of what follows, the units, their time of
-- judgement, and a bucket's unit and refill; then, of a state of a few numbers, what is stored of it as
-- it was left, and as it was found. Of a record that was settled it has, after the length, what was
-- given back, or AS_CHARGED for nothing that was to be.
local hold = operation >= HELD and {}
if hold then
  operation = operation - HELD
  local id, life = unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
  local by_time, by_id = string.char(HELD_BY_TIME), string.char(HELD_BY_ID)
  hold.leaves = operation == CHECK or operation == CHARGE or operation == TAKE_UP_TO
  hold.changes = operation == GIVE_BACK or operation == SETTLE

  local function set_of(part)
    return all_keys[first + keys - parts + part - 1]
  end

  -- What is stored of a policy's state.
  local function stored(p)
    local place = p.found and p.place
    return place and string.sub(p.subject.value, place[1], place[1] + place[2] - 1) or ''
  end

  local function find(part)
    local set, found = set_of(part), { entries = {} }
    local function member(start)
      return redis.call('ZRANGEBYLEX', set, '[' .. start, '(' .. start .. '\255')[1]
    end
    found.name = member(by_id .. id)
    found.ends = found.name and string.sub(found.name, #id + 2)
    found.record = found.name and member(by_time .. found.ends .. id)
    if not found.record or unpack(NUMBER, found.ends) <= now then return found end
    found.is_there = true
    local place, record = HOLD_HEAD_SIZE + 1, found.record
    while place < #record do
      local policy = string.sub(record, place, place + ID_SIZE - 1)
      local length, from = unpack(LENGTH, record, place + ID_SIZE)
      found.entries[policy], place = string.sub(record, from, from + length - 1), from + length
      found.is_settled = length == NUMBER_SIZE
    end
    return found
  end

  local all = {}
  -- The record of a part, if there is one that has not ended, and its entries by policy.
  local function record_of(part)
    all[part] = all[part] or find(part)
    return all[part]
  end

  local function remove(part)
    local found = record_of(part)
    if found.record then redis.call('ZREM', set_of(part), found.name, found.record) end
  end

  -- Puts a record in, and lets the set live for as long.
  local function put(part, ends, lasts, entries)
    local set, millis = set_of(part), ceil(max(lasts, shortest) / 1000) + 1
    redis.call('ZADD', set, 0, by_time .. ends .. id .. entries, 0, by_id .. id .. ends)
    if redis.call('PTTL', set) < millis then redis.call('PEXPIRE', set, millis) end
  end

  -- Why no record can be left: the id is in use, or there are too many. Drops what has ended, a few
  -- records at a time.
  function hold.refused()
    for part = 1, parts do
      if record_of(part).is_there then return IN_USE end
    end
    for part = 1, parts do
      remove(part)
      local set, live = set_of(part), '(' .. by_time .. pack(NUMBER, now + 1)
      for _, record in ipairs(redis.call('ZRANGEBYLEX', set, '-', live, 'LIMIT', 0, HOLD_SWEEP)) do
        local name = string.sub(record, NUMBER_SIZE + 2, HOLD_HEAD_SIZE)
        redis.call('ZREM', set, record, by_id .. name .. string.sub(record, 2, NUMBER_SIZE + 1))
      end
      if redis.call('ZCARD', set) >= 2 * HOLDS_MOST then return FULL end
    end
  end

  -- Leaves a record in each part that was charged; whether any was.
  function hold.leave(subjects)
    local kept = 0
    for part, s in ipairs(subjects) do
      local entries = {}
      for _, p in ipairs(s.policies) do
        if p.taken then
          local entry = pack(HELD_UNITS, p.taken, p.at, p.unit or 0, p.refill or 0)
          if not p.key and not p.inline and not p.restamped and not p.slots then
            entry = entry .. p.kernel.write(p) .. stored(p)
          end
          entries[#entries + 1] = p.id .. pack(LENGTH, #entry) .. entry
        end
      end
      if #entries > 0 then
        put(part, pack(NUMBER, min(now + life, MAX)), life, table.concat(entries))
        kept = 1
      end
    end
    return kept
  end

  -- Gives back at most so many units of what a policy was charged. If nobody was charged since, it is as
  -- if they had never been taken.
  local function give(p, entry, most, leases)
    local units, at, unit, refill = unpack(HELD_UNITS, entry)
    local left, held = string.sub(entry, HELD_UNITS_SIZE + 1), stored(p)
    local is_last = string.sub(left, 1, #held) == held
    if is_last and most >= units then
      p.restored, p.given, p.changed = string.sub(left, #held + 1), units, true
    elseif p.kernel.give_back then
      local used = p.slots and leases.used_beyond(p)
      p.kernel.give_back(p, min(most, units), at, unit, refill, is_last)
      if used and p.changed then
        leases.pin(p)
        p.given = used - leases.used_beyond(p)
      end
    end
  end

  -- Gives back by a record, which is removed, so that nothing is given back twice.
  function hold.give_back(p, leases)
    local found = record_of(p.subject.part)
    if not found.is_removed then
      found.is_removed = true
      remove(p.subject.part)
    end
    local entry = found.is_there and p.found and found.entries[p.id]
    if entry then give(p, entry, p.cost, leases) end
  end

  -- Whether anything is held under the id that was not settled, or was.
  function hold.found()
    local is_there = HOLD_UNKNOWN
    for part = 1, parts do
      local found = record_of(part)
      if found.is_there and not found.is_settled then return HOLD_LIVE end
      if found.is_there then is_there = HOLD_SETTLED end
    end
    return is_there
  end

  -- Gives back what was not used, or charges what was used beyond; false if no state can hold that.
  function hold.settle(p, leases)
    local found = record_of(p.subject.part)
    if not found.is_there or found.is_settled then return true end
    local entry = found.entries[p.id]
    local units = entry and unpack(HELD_UNITS, entry) or 0
    local used = p.cost == AS_CHARGED and units or p.cost
    if used > units then return p.kernel.admit(p, used - units, 0) end
    if used < units then
      p.gives = true
      if p.found then give(p, entry, units - used, leases) end
    end
    return true
  end

  -- Writes what became of the records, and says what was found and given back.
  function hold.finish(subjects)
    local found, given = hold.found(), {}
    for part, s in ipairs(subjects) do
      local record, entries = record_of(part), {}
      local is_live = record.is_there and not record.is_settled
      for _, p in ipairs(s.policies) do
        local number = pack(NUMBER, p.gives and (p.given or 0) or AS_CHARGED)
        if found == HOLD_SETTLED and operation == SETTLE then number = record.entries[p.id] or number end
        given[#given + 1], entries[#entries + 1] = number, p.id .. pack(LENGTH, NUMBER_SIZE) .. number
      end
      if is_live then
        remove(part)
        if operation == SETTLE then
          put(part, record.ends, unpack(NUMBER, record.ends) - now, table.concat(entries))
        else
          local ends = pack(NUMBER, min(now + life, MAX))
          put(part, ends, life, string.sub(record.record, HOLD_HEAD_SIZE + 1))
        end
      end
    end
    return found, table.concat(given)
  end
end
