-- Holds: records of charges, by which the charges are settled or given back until the records expire. A
-- subject's first records are inline (inline_read.lua). Any other has a separate key with:
--
--   until group generation entries
--
-- The group counts the record in the subject's tally (tally.lua), and a reset starts another generation. An
-- entry starts with the kind and identity of a policy and the length of the rest. Then follow the units,
-- their evaluation time, and a bucket's unit and refill. For a state with a fixed count of numbers the stored
-- state after and before the charge is added. An entry of a settled record has, after the length, the units
-- given back, or AS_CHARGED if none were due.
--
-- A sorted set has one member for each unsettled record with units in flight or a return at its end. Its
-- order is that of their bytes:
--
--   HELD_BY_TIME until id entries
--
-- A record to give back at its end begins with an entry that has only its kind, RETURNING.

function MAKE_HOLD()
  local hold = operation >= HELD and {}
  if hold then
    operation = operation - HELD
    hold.waits = operation >= WAITING
    if hold.waits then operation = operation - WAITING end
    local id, life, flags = unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
    hold.id = id
    local by_time, behind = string.char(HELD_BY_TIME), string.char(HELD_BY_TIME + 1)
    local is_indexed = flags >= INDEXED
    -- A call without its own record only needs the keys of the others' records.
    hold.is_somebodys = life > 0 or operation == SETTLE
    hold.leaves = hold.is_somebodys and (operation == CHECK or operation == CHARGE or operation == TAKE)
    hold.gives_back = hold.is_somebodys and operation == GIVE_BACK
    hold.changes = hold.gives_back or operation == SETTLE
    hold.has_slots = flags % 2 == 1
    local one, two, three = unpack(HOLD_ID, id)
    SLOT_OF(now, life, one, two, three, hold.ends, hold.tag)

    -- The keys of the hold are the last ones.
    hold.keys = parts * (is_indexed and 2 or 1)

    local function key_of(part)
      return all_keys[first + keys - hold.keys + part - 1]
    end

    -- The set of units in flight. A limit that no longer counts units in flight has it in the slot of the
    -- record. Its key then ends in `holds` instead of `hold#` and 32 digits.
    local function set_of(part)
      if is_indexed then return all_keys[first + keys - parts + part - 1] end
      local key = key_of(part)
      return string.sub(key, 1, #key - 33) .. 's'
    end

    hold.set_of = set_of

    -- Extends the TTL of a set to at least this time.
    function hold.keep(set, lasts)
      local lives
      lasts = max(lasts, shortest)
      LIFE(lasts, lives)
      if redis.call('PTTL', set) < lives then redis.call('PEXPIRE', set, lives) end
    end

    FIND_RECORDS()
    LOOK_AT_ENDED()
    LEAVE_RECORDS()
    SETTLE_RECORDS()
    COUNT_IN_FLIGHT()
  end
end

-- Finds records, and writes them.
--
-- makes   stored, read, units_of, end_of, mark, is_in_set, record_of, land, put
function FIND_RECORDS()
  -- Returns the stored state of a policy.
  local function stored(p)
    local place = p.found and p.place
    if place and p.plain then return not p.slots and p.plain or '' end
    return place and string.sub(p.subject.value, place[1], place[1] + place[2] - 1) or ''
  end

  -- Returns the entries of a record by policy, and whether it was settled. They begin at `place`.
  local function read(record, place)
    local entries, is_settled = {}, false
    while place < #record do
      local policy = string.sub(record, place, place + ID_SIZE - 1)
      local length, from = unpack(LENGTH, record, place + ID_SIZE)
      entries[policy], place = string.sub(record, from, from + length - 1), from + length
      is_settled = length == NUMBER_SIZE
    end
    return entries, is_settled
  end

  -- Returns the units of a policy that a member of the set holds.
  local function units_of(p, member)
    local entry = read(member, HOLD_HEAD_SIZE + 1)[p.id]
    return entry and unpack(HELD_UNITS, entry) or 0
  end

  local function end_of(member)
    return (unpack(NUMBER, member, 2))
  end

  local mark = string.char(RETURNING_KIND) .. string.rep('\0', ID_SIZE - 1)

  -- Returns whether the set has a member for a record.
  local function is_in_set(found)
    for policy in pairs(found.entries) do
      if string.byte(policy) == PERMITS_KIND or policy == mark then return not found.is_settled end
    end
    return false
  end

  local function find(part)
    local found, i = { entries = {} }, inline.of(part)
    if i.own then
      found.is_there, found.is_inline, found.ends, found.content = true, true, i.own_ends, i.own
      found.entries, found.is_settled = read(found.content, 1)
      return found
    end
    local record = redis.call('GET', key_of(part))
    if not record or #record <= HELD_HEAD_SIZE then return found end
    local generation
    found.ends, found.group, generation = unpack(HELD_HEAD, record)
    if found.ends <= now or generation ~= tally.of(part).generation then return found end
    found.is_there, found.content = true, string.sub(record, HELD_HEAD_SIZE + 1)
    found.entries, found.is_settled = read(found.content, 1)
    if found.entries[mark] then
      -- The key outlives a returned record. And by a clock that was set back the record has not ended.
      local member = by_time .. pack(NUMBER, found.ends) .. id .. found.content
      found.is_there = redis.call('ZRANGEBYLEX', set_of(part), '[' .. member, '[' .. member, 'LIMIT', 0, 1)[1] ~= nil
      if not found.is_there then found.entries = {} end
    end
    return found
  end

  local all = {}
  -- Returns the record of a part, if there is one that has not ended, and its entries by policy.
  local function record_of(part)
    all[part] = all[part] or find(part)
    return all[part]
  end

  -- Removes the record of a part from the set.
  local function land(part)
    local found = record_of(part)
    if found.is_there and is_in_set(found) then
      redis.call('ZREM', set_of(part), by_time .. pack(NUMBER, found.ends) .. id .. found.content)
    end
  end

  -- Writes a record, which replaces an existing one.
  local function put(part, ends, group, entries, flies)
    local lasts, record_lasts, lives = ends - now, max(ends - now, shortest), nil
    local head = pack(HELD_HEAD, ends, group, tally.of(part).generation)
    LIFE(record_lasts, lives)
    redis.call('SET', key_of(part), head .. entries, 'PX', lives)
    local set, s = set_of(part), tally.subjects[part]
    if flies then
      redis.call('ZADD', set, 0, by_time .. pack(NUMBER, ends) .. id .. entries)
      -- A record can be given back at its end as long as the states are useful.
      hold.keep(set, max(lasts, tally.lasts(part), s.returns and s.lasts or 0))
    elseif is_indexed and tally.of(part).changed then
      -- Units in flight are counted as long as any record exists.
      hold.keep(set, tally.lasts(part))
    end
  end
end

-- Leaves records, and counts them.
--
-- makes   says_nothing, removable, entries_of; hold.refused, hold.count_out, hold.count, hold.remove_ended,
--         hold.make_room, hold.leave
function LEAVE_RECORDS()
  -- Returns why no record can be left: the id is in use, or there are too many.
  function hold.refused()
    for part = 1, parts do
      if record_of(part).is_there then return IN_USE end
    end
    for part = 1, parts do
      if tally.live(part) + inline.live(part) >= HOLDS_MOST then return FULL end
    end
  end

  -- Counts out ended records, which are removed when a record is left.
  function hold.count_out(subjects)
    for _, s in ipairs(subjects) do
      local leaves = false
      for _, p in ipairs(s.policies) do leaves = leaves or p.taken end
      for _, p in ipairs(s.policies) do
        if leaves and p.kernel.counts_records then p.kernel.count_out(p) end
      end
    end
  end

  local function says_nothing(subjects)
    for _, s in ipairs(subjects) do
      for _, p in ipairs(s.policies) do
        if p.cost ~= AS_CHARGED then return false end
      end
    end
    return true
  end

  -- Counts the records that will be added and removed, except for inline ones.
  function hold.count(subjects, allowed)
    for part, s in ipairs(subjects) do
      local comes, goes, found = false, false, {}
      if hold.leaves then
        for _, p in ipairs(s.policies) do comes = comes or allowed and p.taken end
        -- A new record gets a separate key while other records have one, so that their ids are found.
        s.is_inline = comes and not is_indexed and tally.live(part) == 0 and inline.has_room(part)
      elseif hold.changes or operation == RENEW then
        found = record_of(part)
        local is_live = found.is_there and not found.is_settled
        goes = operation == GIVE_BACK and found.is_there and found.is_removed or operation ~= GIVE_BACK and is_live
          and (operation == RENEW or says_nothing(subjects))
        comes = is_live and operation == RENEW
        s.is_inline = found.is_inline
      end
      -- The known ends of records are outdated.
      if comes or goes or hold.changes and found.is_there then
        for _, p in ipairs(s.policies) do
          if p.kernel.counts_records then p.changed = true end
        end
      end
      if goes and not s.is_inline then tally.count_out(part, found.group) end
      if comes and not s.is_inline then s.group = tally.count_in(part, min(hold.ends, MAX)) end
    end
  end

  -- Returns the members that a call with a new record removes: all ended ones, except for those to give back.
  local function removable(part)
    local gone = {}
    for _, member in ipairs(ended_of(part)) do
      if not (tally.subjects[part].returns and is_marked(member)) then gone[#gone + 1] = member end
    end
    return gone
  end

  function hold.remove_ended(part)
    local gone = removable(part)
    if gone[1] then redis.call('ZREM', set_of(part), spread(gone)) end
  end

  -- Counts out ended records if there are more than a call examines, so that a denied request makes way for
  -- the next.
  function hold.make_room(subjects)
    for part, s in ipairs(subjects) do
      s.makes_room = #ended_of(part) >= HOLDS_ENDED
      for _, p in ipairs(s.policies) do
        if s.makes_room and p.kernel.counts_records then p.kernel.count_out(p) end
      end
    end
  end

  -- Returns the entries of a charged part's record, or nil if nothing was charged, and whether they are in
  -- the set.
  local function entries_of(s)
    local entries, flies, charged = {}, false, false
    if s.returns and hold.has_slots then entries[1], flies = mark .. pack(LENGTH, 0), true end
    for _, p in ipairs(s.policies) do
      if p.taken then
        charged = true
        flies = flies or p.kernel.counts_records
        local entry = pack(HELD_UNITS, p.taken, p.at, p.unit or 0, p.refill or 0, p.slot or AS_CHARGED)
        if not p.key and not p.inline and not p.restamped and not p.slots and not p.kernel.counts_records then
          entry = entry .. p.kernel.write(p) .. stored(p)
        end
        entries[#entries + 1] = p.id .. pack(LENGTH, #entry) .. entry
      end
    end
    return charged and table.concat(entries), flies
  end

  -- Leaves a record in each charged part, and returns whether there was any.
  function hold.leave(subjects)
    local kept = 0
    for part, s in ipairs(subjects) do
      local entries, flies = entries_of(s)
      if entries then
        kept = 1
        if not s.is_inline then
          hold.remove_ended(part)
          put(part, min(now + life, MAX), s.group, entries, flies)
        end
      end
    end
    return kept
  end
end
