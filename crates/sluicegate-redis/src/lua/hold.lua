-- Short holds: records of what was charged, by which it can be given back once, for as long as they
-- live. A subject's stand in one sorted set, as two members each, in the order of their bytes:
--   HELD_BY_TIME until id entries
--   HELD_BY_ID id until
-- An entry has kind and identity of a policy, the length of what follows, the units, their time of
-- judgement, and a bucket's unit and refill; then, of a state of a few numbers, what is stored of it as
-- it was left, and as it was found.
local hold = operation >= HELD and {}
if hold then
  operation = operation - HELD
  local id, life = unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
  local by_time, by_id = string.char(HELD_BY_TIME), string.char(HELD_BY_ID)

  local function set_of(part)
    return all_keys[first + keys - parts + part - 1]
  end

  -- What is stored of a policy's state.
  local function stored(p)
    local place = p.found and p.place
    return place and string.sub(p.subject.value, place[1], place[1] + place[2] - 1) or ''
  end

  -- Drops what has lapsed, a few records at a time, and tells whether there is room for another.
  function hold.has_room()
    for part = 1, parts do
      local set, live = set_of(part), '(' .. by_time .. pack(NUMBER, now + 1)
      for _, record in ipairs(redis.call('ZRANGEBYLEX', set, '-', live, 'LIMIT', 0, HOLD_SWEEP)) do
        local name = string.sub(record, NUMBER_SIZE + 2, HOLD_HEAD_SIZE)
        redis.call('ZREM', set, record, by_id .. name .. string.sub(record, 2, NUMBER_SIZE + 1))
      end
      if redis.call('ZCARD', set) >= 2 * HOLDS_MOST then return false end
    end
    return true
  end

  function hold.keep(subjects)
    local ends = pack(NUMBER, min(now + life, MAX))
    local millis = ceil(max(life, shortest) / 1000) + 1
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
        local set = set_of(part)
        redis.call('ZADD', set, 0, by_time .. ends .. id .. table.concat(entries), 0, by_id .. id .. ends)
        if redis.call('PTTL', set) < millis then redis.call('PEXPIRE', set, millis) end
      end
    end
  end

  -- The entries of a part's record, by policy. It is removed, so that nothing is given back twice.
  local function take(part)
    local set, found = set_of(part), {}
    local function member(start)
      return redis.call('ZRANGEBYLEX', set, '[' .. start, '(' .. start .. '\255')[1]
    end
    local name = member(by_id .. id)
    local ends = name and string.sub(name, #id + 2)
    local record = name and member(by_time .. ends .. id)
    if not record then return found end
    redis.call('ZREM', set, name, record)
    if unpack(NUMBER, ends) <= now then return found end
    local place = HOLD_HEAD_SIZE + 1
    while place < #record do
      local policy = string.sub(record, place, place + ID_SIZE - 1)
      local length, from = unpack(LENGTH, record, place + ID_SIZE)
      found[policy], place = string.sub(record, from, from + length - 1), from + length
    end
    return found
  end

  local taken = {}

  -- Gives back what a policy was charged: so many units of it as its cost is now, at most. If nobody
  -- was charged since, it is as if it had never been.
  function hold.give_back(p)
    local part = p.subject.part
    taken[part] = taken[part] or take(part)
    local entry = p.found and taken[part][p.id]
    if not entry then return end
    local units, at, unit, refill = unpack(HELD_UNITS, entry)
    local left, held = string.sub(entry, HELD_UNITS_SIZE + 1), stored(p)
    local is_last = string.sub(left, 1, #held) == held
    if is_last and p.cost >= units then
      p.restored, p.changed = string.sub(left, #held + 1), true
    elseif p.kernel.give_back then
      p.kernel.give_back(p, min(p.cost, units), at, unit, refill, is_last)
    end
  end
end
