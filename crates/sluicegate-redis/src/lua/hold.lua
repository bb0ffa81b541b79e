-- Holds: records of what was charged, by which it is settled or given back for as long as they live. Few of a
-- subject stand inline (inline_read.lua); any other in a key of its own:
--   until group generation entries
-- The group is the one that counts it in the subject's tally (tally.lua), and a reset begins another
-- generation. An entry has kind and identity of a policy, the length of what follows, the units, their time
-- of judgement, and a bucket's unit and refill; then, of a state of a few numbers, what is stored of it as
-- it was left, and as it was found. Of a record that was settled it has, after the length, what was
-- given back, or AS_CHARGED for nothing that was to be.
-- Of those that hold units in flight, or are given back at their end, and were not settled, a sorted set has
-- one member each, in the order of their bytes:
--   HELD_BY_TIME until id entries
-- What is given back at its end begins with an entry that has nothing but its kind, RETURNING.

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
    -- A record of nobody is there for what others hold.
    hold.is_somebodys = life > 0 or operation == SETTLE
    hold.leaves = hold.is_somebodys and (operation == CHECK or operation == CHARGE or operation == TAKE_UP_TO)
    hold.gives_back = hold.is_somebodys and operation == GIVE_BACK
    hold.changes = hold.gives_back or operation == SETTLE
    hold.has_slots = flags % 2 == 1
    local one, two, three = unpack(HOLD_ID, id)
    SLOT_OF(now, life, one, two, three, hold.ends, hold.tag)

    -- Its keys are the last.
    hold.keys = parts * (is_indexed and 2 or 1)

    local function key_of(part)
      return all_keys[first + keys - hold.keys + part - 1]
    end

    -- The set of what is in flight. A limit that counts nothing in flight any more has it beside the record,
    -- in the same slot: `holds` instead of `hold#` and 32 digits.
    local function set_of(part)
      if is_indexed then return all_keys[first + keys - parts + part - 1] end
      local key = key_of(part)
      return string.sub(key, 1, #key - 33) .. 's'
    end

    hold.set_of = set_of

    -- Lets a set live for so long.
    function hold.keep(set, lasts)
      local millis = ceil(max(lasts, shortest) / 1000) + 1
      if redis.call('PTTL', set) < millis then redis.call('PEXPIRE', set, millis) end
    end

    -- What is stored of a policy's state.
    local function stored(p)
      local place = p.found and p.place
      if place and p.plain then return not p.slots and p.plain or '' end
      return place and string.sub(p.subject.value, place[1], place[1] + place[2] - 1) or ''
    end

    -- The entries of a record by policy, and whether it was settled. They begin at a place.
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

    -- The units of a policy that a member of the set holds.
    local function units_of(p, member)
      local entry = read(member, HOLD_HEAD_SIZE + 1)[p.id]
      return entry and unpack(HELD_UNITS, entry) or 0
    end

    local function end_of(member)
      return (unpack(NUMBER, member, 2))
    end

    local mark = string.char(RETURNING_KIND) .. string.rep('\0', ID_SIZE - 1)

    -- Whether the set has a member for a record.
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
        -- Its key outlives it where it was returned, and by a clock that is set back it has not ended.
        local member = by_time .. pack(NUMBER, found.ends) .. id .. found.content
        found.is_there = redis.call('ZRANGEBYLEX', set_of(part), '[' .. member, '[' .. member, 'LIMIT', 0, 1)[1] ~= nil
        if not found.is_there then found.entries = {} end
      end
      return found
    end

    local all = {}
    -- The record of a part, if there is one that has not ended, and its entries by policy.
    local function record_of(part)
      all[part] = all[part] or find(part)
      return all[part]
    end

    -- Takes the record of a part out of the set.
    local function land(part)
      local found = record_of(part)
      if found.is_there and is_in_set(found) then
        redis.call('ZREM', set_of(part), by_time .. pack(NUMBER, found.ends) .. id .. found.content)
      end
    end

    -- Puts a record in the place of the one that there may be.
    local function put(part, ends, group, entries, flies)
      local lasts = ends - now
      local head = pack(HELD_HEAD, ends, group, tally.of(part).generation)
      redis.call('SET', key_of(part), head .. entries, 'PX', ceil(max(lasts, shortest) / 1000) + 1)
      local set, s = set_of(part), tally.subjects[part]
      if flies then
        redis.call('ZADD', set, 0, by_time .. pack(NUMBER, ends) .. id .. entries)
        -- What is given back at its end is so for as long as the states are of use.
        hold.keep(set, max(lasts, tally.lasts(part), s.returns and s.lasts or 0))
      elseif is_indexed and tally.of(part).changed then
        -- What is in flight is counted for as long as any record is.
        hold.keep(set, tally.lasts(part))
      end
    end

    local ended, returned = {}, {}
    -- Those members of the set of a part that have ended, the first of them.
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

    -- What is given back now: its members, which have ended no more.
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

    -- Takes out of the set what was given back.
    function hold.forget_returned(part)
      local gone = returned[part]
      if gone and gone[1] then redis.call('ZREM', set_of(part), spread(gone)) end
    end

    -- Why no record can be left: the id is in use, or there are too many.
    function hold.refused()
      for part = 1, parts do
        if record_of(part).is_there then return IN_USE end
      end
      for part = 1, parts do
        if tally.live(part) + inline.live(part) >= HOLDS_MOST then return FULL end
      end
    end

    -- Counts out what has ended, which goes where a record is left.
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

    -- Counts the records that are about to come and go, but for those inline.
    function hold.count(subjects, allowed)
      for part, s in ipairs(subjects) do
        local comes, goes, found = false, false, {}
        if hold.leaves then
          for _, p in ipairs(s.policies) do comes = comes or allowed and p.taken end
          -- Those that come stay outside while others are there, so that their ids are found.
          s.is_inline = comes and not is_indexed and tally.live(part) == 0 and inline.has_room(part)
        elseif hold.changes or operation == RENEW then
          found = record_of(part)
          local is_live = found.is_there and not found.is_settled
          goes = operation == GIVE_BACK and found.is_there and found.is_removed or operation ~= GIVE_BACK and is_live
            and (operation == RENEW or says_nothing(subjects))
          comes = is_live and operation == RENEW
          s.is_inline = found.is_inline
        end
        -- What is known of when records end is so no more.
        if comes or goes or hold.changes and found.is_there then
          for _, p in ipairs(s.policies) do
            if p.kernel.counts_records then p.changed = true end
          end
        end
        if goes and not s.is_inline then tally.count_out(part, found.group) end
        if comes and not s.is_inline then s.group = tally.count_in(part, min(hold.ends, MAX)) end
      end
    end

    -- What a call that leaves a record removes: all that has ended, but what is to be given back.
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

    -- Counts out what has ended, where there is more than a call looks at: whoever was denied makes room for the next.
    function hold.make_room(subjects)
      for part, s in ipairs(subjects) do
        s.makes_room = #ended_of(part) >= HOLDS_ENDED
        for _, p in ipairs(s.policies) do
          if s.makes_room and p.kernel.counts_records then p.kernel.count_out(p) end
        end
      end
    end

    -- The entries of the record of a part that was charged, if it was, and whether they are in the set.
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

    -- Leaves a record in each part that was charged; whether any was.
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

    -- Gives back at most so many units of what a policy was charged. If nobody was charged since, it is as
    -- if they had never been taken.
    local function give(p, entry, most, leases, is_released)
      local units, at, unit, refill = unpack(HELD_UNITS, entry)
      local left, held = string.sub(entry, HELD_UNITS_SIZE + 1), stored(p)
      -- What they begin with is the same but for how long a state is kept.
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

    -- Gives back by a record, which is removed, so that nothing is given back twice.
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

    -- Moves what a policy holds to the slot for its new life.
    function hold.move(p, leases)
      local found = record_of(p.subject.part)
      local is_restamped = p.restamped
      -- But what was given back before is written.
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

    -- The entries of a record, with those that have moved.
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
    function hold.settle(p, leases, admit)
      local found = record_of(p.subject.part)
      if not found.is_there or found.is_settled then return true end
      return hold.settle_by(found.entries[p.id], p, p.cost, leases, admit)
    end

    -- The same by an entry of a record, if that has one.
    function hold.settle_by(entry, p, used, leases, admit)
      local units, _, _, _, slot = 0, nil, nil, nil, nil
      if entry then units, _, _, _, slot = unpack(HELD_UNITS, entry) end
      if used == AS_CHARGED then used = units end
      -- A permit is given back, whatever was done with it.
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

    -- Gives back what a member of the set holds of a policy.
    function hold.give_returned(p, member, leases, admit)
      local entry = read(member, HOLD_HEAD_SIZE + 1)[p.id]
      if not p.kernel.counts_records then
        hold.settle_by(entry, p, 0, leases, admit)
      else
        p.all, p.changed = max(0, p.all - (entry and unpack(HELD_UNITS, entry) or 0)), true
      end
    end

    -- What a policy was given back, as it is told and as a record says it.
    local function given_of(p, record)
      local number = pack(NUMBER, p.gives and (p.given or 0) or AS_CHARGED)
      if operation == SETTLE and hold.found() == HOLD_SETTLED then return record.entries[p.id] or number end
      return number
    end

    -- The entries of a record that is settled.
    local function settled_entries(s, record)
      local entries = {}
      for index, p in ipairs(s.policies) do
        entries[index] = p.id .. pack(LENGTH, NUMBER_SIZE) .. given_of(p, record)
      end
      return table.concat(entries)
    end

    -- Makes of the records inline what becomes of them, before the value is written.
    function hold.write_inline(subjects)
      for part, s in ipairs(subjects) do
        local record = s.is_inline and not hold.leaves and record_of(part)
        if s.is_inline and hold.leaves then
          inline.put(part, min(now + life, MAX), (entries_of(s)))
        elseif not record or record.is_settled or hold.gives_back then
          -- Nothing becomes of it, or it was removed.
        elseif operation == RENEW then
          inline.put(part, min(now + life, MAX), moved_entries(record))
        elseif says_nothing(subjects) then
          -- Who says nothing of what was used is not told the same again.
          inline.remove(part)
        else
          inline.put(part, record.ends, settled_entries(s, record))
        end
      end
    end

    -- Writes what became of the other records, and says what was found and given back.
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

    -- The units of a policy that are held by what has ended.
    function hold.ended_units(p)
      if not p.ended_units then
        p.ended_units = 0
        for index, record in ipairs(ended_of(p.subject.part)) do
          if index <= HOLDS_ENDED then p.ended_units = p.ended_units + units_of(p, record) end
        end
      end
      return p.ended_units
    end

    -- Whether nothing is left of what was in flight, not even the set, which lives as long as any record: then
    -- nobody can be counted out any more.
    function hold.is_over(part)
      return is_indexed and tally.live(part) == 0 and not ended_of(part)[1] and not (returned[part]
        and returned[part][1])
    end

    -- Those of them that a call takes out which leaves a record.
    function hold.removable_units(p)
      local units = 0
      for _, record in ipairs(removable(p.subject.part)) do units = units + units_of(p, record) end
      return units
    end

    -- The units that all records hold.
    function hold.all_units(p)
      local units, finish = 0, '(' .. behind
      for _, record in ipairs(redis.call('ZRANGEBYLEX', set_of(p.subject.part), '-', finish)) do
        units = units + units_of(p, record)
      end
      return units
    end

    -- When so many of a policy's units have ended: if too many records have to be looked through, when all
    -- have.
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

    -- When the last of a policy's units end, or if too many records have to be looked through, the last record.
    function hold.last_end(p)
      local set, start, at, last = set_of(p.subject.part), '(' .. behind, 0, nil
      while at < HOLDS_LOOKED_THROUGH do
        -- Most often it is the first.
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
end
