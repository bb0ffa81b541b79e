-- The general part: any operation on any policies, with any stored states. It treats all kernels alike, and also
-- bans (ban.lua), pauses (pause.lua), records (hold.lua), queues (queue.lua) and reservation queues
-- (reservations.lua).
--
-- reads   what BEGIN_GENERAL and the steps after it declare
-- returns the reply, and the units granted

function DECIDE()
  READ_SUBJECTS()
  READ_PAUSES()
  REFUSE()
  CHECK_RECORD()
  OPEN_POLICIES()
  MAKE_COMPOSE()
  RETURN_ENDED()
  CHANGE_PAUSES()
  TAKE_REPORTS()
  RESET_SUBJECTS()
  TELL_SLICES()
  JUDGE()
  CHARGE_POLICIES()
  CHANGE_RECORDS()
  WRITE_SUBJECTS()
  FINISH()
end

-- Reads the parts, each with the packed states of its subject and the position of each entry, up to the first
-- invalid one.
--
-- makes   subjects, find_entries, reply_of; notes: 1 if an entry was invalid
function READ_SUBJECTS()
  -- An unknown operation must not be mistaken for another one.
  if operation < CHECK or operation > RESUME then
    return redis.error_reply('ERR unknown operation ' .. operation)
  end

  local notes, leases = 0, nil

  -- Records the position of each entry of packed states, and returns whether all entries are valid.
  local function find_entries(s, value)
    s.value, s.positions, s.order = value, {}, {}
    return walk(value or '', function(position, length)
      local id = string.sub(value, position, position + (ID_SIZE - 1))
      s.positions[id] = { position, length }
      s.order[#s.order + 1] = { id, position, length }
    end)
  end

  local subjects = {}
  for part = 1, parts do
    local value = value
    if part > 1 then
      value = bans and bans.values[part]
      if value == nil or not bans then value = call('GET', all_keys[first + part - 1]) end
    end
    if value and value.err then
      if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
      value, notes = false, 1
    end
    local s = { part = part, mine = {}, policies = {} }
    if not find_entries(s, value) then notes = 1 end
    local b = bans and bans[part]
    if b then
      s.mine[bans.id] = true
      if b.place and not b.known then notes = 1 end
    end
    subjects[part] = s
  end

  -- Returns the reply if it has more than a value: with the values as they were.
  local function reply_of(verdict)
    local reply = { tag .. clock[1] .. ' ' .. clock[2] .. '#', verdict, now, notes }
    for _, s in ipairs(subjects) do
      reply[#reply + 1] = operation == RESERVE and s.value and split(s.value) or s.value
    end
    return reply
  end

  if tally then tally.subjects = subjects end
end

-- Replies if the record of a hold finds no place.
function CHECK_RECORD()
  if hold and hold.leaves then
    local why = hold.refused()
    if why then return reply_of(why) end
  end
end

-- Opens every policy with its state.
--
-- makes   open, policies; is_restamped (whether a clock was set back); offset (the end of the last policy)
function OPEN_POLICIES()
  -- Returns a policy with its state at the evaluation time, whether the state could be brought there, and the
  -- start of the next policy. A policy that is opened again has a known subject and key.
  local policies, kernels, own, part, offset = {}, {}, first + parts, 1, FIRST_POLICY
  local function open(from, s, key)
    local p = { from = from, key = key, id = sub(program, from, from + (ID_SIZE - 1)) }
    local x, y, z, v, w, kind, flags, further, after
    p.head, x, y, z, p.cost, kind, flags, p.limit, after = unpack(POLICY, program, from)
    v, w, further, after = unpack(POLICY_FURTHER, program, after)
    if further > 0 then
      p.pairs = {}
      for each = 1, further do
        local one, other
        one, other, after = unpack(PAIR, program, after)
        p.pairs[each] = { one, other }
      end
    end
    if not s then
      if floor(flags / NEXT_PART) % 2 == 1 then part = part + 1 end
      s = subjects[part]
      if floor(flags / RETURNS) % 2 == 1 then s.returns = true end
      if kind == LOG_KIND then
        p.key, own = all_keys[own], own + 1
      end
    end
    local value = s.value
    kernels[kind] = kernels[kind] or makers[kind]()
    p.kernel, p.inline, p.value = kernels[kind], kind == RING_KIND, value
    p.kernel.numbers(p, x, y, z, v, w)
    p.shadow, p.charge_denied = floor(flags / SHADOW) % 2 == 1, floor(flags / CHARGE_DENIED) % 2 == 1
    p.count_denied = floor(flags / COUNT_DENIED) % 2 == 1
    p.shaper, p.smooth = floor(flags / SHAPER) % 2 == 1, floor(flags / SMOOTH) % 2 == 1
    p.subject = s
    s.mine[p.id] = true
    local found, leased, held = s.positions[p.id], nil, nil
    if p.kernel.leased then
      p.leased_id = string.char(p.kernel.leased) .. sub(p.id, 2)
      s.mine[p.leased_id] = true
      leased = s.positions[p.leased_id]
    end
    if p.kernel.held and not p.shaper and not p.smooth then
      p.held_id = string.char(p.kernel.held) .. sub(p.id, 2)
      s.mine[p.held_id] = true
      held = s.positions[p.held_id]
    end
    if leased or held or leasing or hold and hold.has_slots then leases = leases or makers.leases() end
    p.place = held or leased or found
    if held or leased then
      p.found = leases.read(p, value, p.place[1], p.place[2], held)
    else
      p.found = found and p.kernel.read(p, value, found[1]) or false
    end
    if p.place and not p.found then notes = 1 end
    local stands = true
    if p.slots and operation == RESET then
      stands = leases.forget(p)
    elseif (p.slots or p.bound) and operation ~= RESET then
      stands = leases.stand(p)
    elseif operation ~= RESET then
      stands = p.kernel.stand(p, now)
    end
    return p, stands, after
  end

  local is_restamped = false
  for index = 1, count do
    local p, stands
    p, stands, offset = open(offset)
    if stands == nil then
      local reply = reply_of(ASK_AGAIN)
      reply[#reply + 1], reply[#reply + 2] = index - 1, p.at or now
      return reply
    end
    if not stands then return reply_of(OVERFLOW) end
    is_restamped = is_restamped or p.restamped
    policies[index], p.subject.policies[#p.subject.policies + 1] = p, p
  end
end

-- Makes the functions that write states: admit, records_changed, life_of and compose.
function MAKE_COMPOSE()
  local function admit(p, cost, act_in)
    if p.bound then return leases.admit(p, cost, act_in) end
    return p.kernel.admit(p, cost, act_in)
  end

  local function records_changed(part)
    return hold and (tally.of(part).changed or inline.of(part).changed)
  end

  -- Returns the time for which a subject's changed states are useful.
  local function life_of(s)
    local b, life = bans and bans[s.part], shortest
    for _, p in ipairs(s.policies) do
      if p.changed or p.found then
        local lasts = p.at - now + p.kernel.lasts(p)
        if p.slots and p.slots[1] then lasts = lasts + leases.lasts(p) end
        life = max(life, lasts)
      end
    end
    if b and b.known then life = max(life, bans.useful(b) - now) end
    for _, pause in pairs(s.pauses or {}) do life = max(life, pause.ends - now) end
    if records_changed(s.part) then
      s.mine[tally.id], s.mine[inline.id] = true, true
      life = max(life, tally.lasts(s.part), inline.lasts(s.part))
    end
    for _, each in ipairs(s.order) do
      -- Another program's states are kept as long as that program can use them.
      if not s.mine[each[1]] then
        local listed = each[3] > 0 and string.byte(s.value, each[2]) >= LISTED_FROM
        local skip = listed and LISTED_HEAD_SIZE or HEAD_SIZE
        local newest = unpack(NUMBER, s.value, each[2] + skip)
        local useful = newest + 2 ^ string.byte(s.value, each[2] + ID_SIZE)
        if useful > now then life = max(life, useful - now) else each[3] = 0 end
      end
    end
    return life
  end

  -- Returns the packed states of a subject with the changes, without useless ones.
  local function compose(s)
    local b, entries = bans and bans[s.part], {}
    for _, p in ipairs(s.policies) do
      if p.changed or p.restamped then
        entries[#entries + 1] = p.restored or (p.bound or p.slots and p.slots[1]) and leases.write(p)
          or p.kernel.write(p)
      elseif p.found then
        entries[#entries + 1] = string.sub(s.value, p.place[1], p.place[1] + p.place[2] - 1)
      end
    end
    if b and b.known then entries[#entries + 1] = bans.write(b) end
    for id, pause in pairs(s.pauses or {}) do
      if pause.ends > now then entries[#entries + 1] = write_pause(id, pause) end
    end
    for _, each in ipairs(s.order) do
      if not s.mine[each[1]] and each[3] > 0 then
        entries[#entries + 1] = string.sub(s.value, each[2], each[2] + each[3] - 1)
      end
    end
    if records_changed(s.part) then
      entries[#entries + 1], entries[#entries + 2] = tally.write(s.part), inline.write(s.part)
    end
    return table.concat(entries)
  end
end

-- First gives back ended records, as if they had been cancelled just before. If states are restamped, a later
-- call does it.
function RETURN_ENDED()
  local looks_back = hold and operation ~= RESET and operation ~= SLICES
  for part, s in ipairs(looks_back and subjects or {}) do
    if s.returns and is_restamped then hold.return_nothing(part) end
    for _, member in ipairs(s.returns and not is_restamped and hold.returning(part) or {}) do
      for _, p in ipairs(s.policies) do hold.give_returned(p, member, leases, admit) end
      find_entries(s, compose(s))
      s.has_returned = true
      for index, p in ipairs(policies) do
        if p.subject ~= s then
          -- This policy belongs to another part.
        elseif p.key then
          -- Its entries are not written yet.
          p.gives, p.given = nil, nil
          p.place, p.found = s.positions[p.id], s.positions[p.id] ~= nil
        else
          local stands
          policies[index], stands = open(p.from, s)
          if not stands then return reply_of(OVERFLOW) end
        end
      end
      s.policies = {}
      for _, p in ipairs(policies) do
        if p.subject == s then s.policies[#s.policies + 1] = p end
      end
    end
  end
end

-- Reads the requests and reports of a lease holder.
--
-- sets    leasing
function TAKE_REPORTS()
  if leasing then
    local want, width, tag, share, least, most, slot, units, earlier, reports
    want, width, tag, share, least, most, slot, units, earlier, reports, offset =
      unpack(PROGRAM_LEASING, program, offset)
    leasing = { want, width, tag, pace = share > 0 and { share, least, most, slot, units, earlier } }
    for _ = 1, reports do
      local slot, spent, returned
      slot, offset = unpack(NUMBER, program, offset)
      for _, p in ipairs(policies) do
        spent, returned, offset = unpack(PAIR, program, offset)
        leases.report(p, slot, spent, returned)
      end
    end
  end
end

-- Forgets the subjects, but not outstanding leases.
function RESET_SUBJECTS()
  if operation == RESET then
    local reply, forgotten = reply_of(ALLOWED), 0
    local ids_inline = string.char(KNOWN_KIND) .. string.rep('\0', ID_SIZE - 1)
    for part, s in ipairs(subjects) do
      local entries, life, key = {}, shortest, all_keys[first + part - 1]
      for _, p in ipairs(s.policies) do
        if p.slots and p.slots[1] then
          -- Reports are forgotten too.
          leases.forget(p)
          entries[#entries + 1] = leases.write(p)
          life = max(life, leases.lasts(p) + p.kernel.lasts(p))
        end
      end
      -- A subject with only ids and the mark of a reset has nothing to forget.
      local is_bare = s.order[1] ~= nil
      for _, each in ipairs(s.order) do
        local are_ids = each[1] == ids_inline
        local is_empty = are_ids or each[1] == tally.id and not tally.of(part).groups[1] or each[1] == inline.id
          and not inline.of(part).own
        is_bare = is_bare and is_empty
        if are_ids and each[3] >= KNOWN_SIZE + KNOWN_ID_SIZE then
          -- The ids stay as long as the newest is valid.
          local start, finish = each[2] + LISTED_HEAD_SIZE, each[2] + each[3] - 1
          local _, _, _, _, _, _, lasts, judged = unpack(KNOWN_NEWEST, s.value, each[2])
          local ends = min(judged + lasts, MAX)
          if ends > now then
            life = max(life, ends - now)
            entries[#entries + 1] = string.sub(s.value, each[2], start - 1) .. pack(NUMBER, ends)
              .. string.sub(s.value, start + NUMBER_SIZE, finish)
          end
        end
      end
      if tally.lasts(part) > 0 then
        tally.begin(part)
        entries[#entries + 1], life = tally.write(part), max(life, tally.lasts(part))
      end
      local gone = 1
      if entries[1] then
        local lives
        LIFE(life, lives)
        redis.call('SET', key, table.concat(entries), 'PX', lives)
      else
        gone = redis.call('DEL', key)
      end
      if not is_bare then forgotten = forgotten + gone end
    end
    for index = first + parts, first + keys - 1 do
      forgotten = forgotten + redis.call('DEL', all_keys[index])
    end
    reply[#reply + 1] = forgotten
    return reply
  end
end

-- Replies the entries of logs, which have a separate key. A ring's entries are in the value.
function TELL_SLICES()
  if operation == SLICES then
    local reply = reply_of(ALLOWED)
    for _, p in ipairs(policies) do
      if p.key then reply[#reply + 1] = p.kernel.live(p) end
    end
    return reply
  end
end

-- Evaluates the request by every policy.
--
-- makes   allowed; act_in (the wait); granted (number of units of a take); turn_in (the wait for the turn of a
--         cancelled reservation)
function JUDGE()
  local allowed, act_in, granted = true, 0, nil
  if operation == TAKE then
    granted = 2 * MAX
    for _, p in ipairs(policies) do
      if p.cost > 0 and not p.shadow then granted = min(granted, p.cost, p.kernel.remaining(p)) end
    end
  end
  for _, p in ipairs(policies) do
    if p.key or p.kernel.counts_records then p.before = p.kernel.remaining(p) end
    if granted and p.cost > 0 then
      p.cost = max(1, p.shadow and min(p.cost, p.kernel.remaining(p)) or granted)
    end
    if p.cost == 0 or operation == CHARGE or operation == REFUND or operation == GIVE_BACK or operation == SETTLE then
      p.wait = 0
    else
      local accepted = nil
      -- While units are leased, others may spend what the reservation would count on.
      if operation == RESERVE and not (p.slots and p.slots[1]) then accepted = term end
      p.wait = p.kernel.ask(p, p.cost, accepted)
      if not p.shadow then
        if p.wait then act_in = max(act_in, p.wait) else allowed = false end
      end
    end
  end

  -- The turn of a cancelled reservation was already charged.
  local longest = allowed and act_in or term
  local turn_in = line and longest > 0 and line.take(policies, longest)
  if turn_in then allowed, act_in = true, turn_in end
end

-- Charges in memory.
function CHARGE_POLICIES()
  for _, p in ipairs(turn_in and {} or policies) do
    local passes = allowed
    -- A denied request has nothing in flight, even if a shadow admits it.
    if p.shadow and (allowed or not p.kernel.counts_records) then passes = p.wait end
    local holds = true
    if operation == SETTLE then
      holds = hold.settle(p, leases, admit)
    elseif p.cost == 0 or operation == PEEK then
      holds = true
    elseif operation == REFUND then
      if p.found then
        p.kernel.refund(p, p.cost)
        if p.bound then p.kernel.refund(p.bound, p.cost) end
      end
    elseif operation == GIVE_BACK then
      if hold and hold.gives_back then
        hold.give_back(p, leases)
      elseif p.found and p.kernel.give_back then
        p.kernel.give_back(p, p.cost, term)
        if p.bound then p.kernel.give_back(p.bound, p.cost, term) end
      end
    elseif operation == CHARGE then
      holds, p.taken = admit(p, p.cost, 0), p.cost
    elseif passes then
      holds, p.taken = admit(p, p.cost, p.shadow and p.wait or act_in), p.cost
    elseif p.charge_denied then
      holds = p.kernel.charge_denied(p, p.cost)
      if p.bound then p.kernel.charge_denied(p.bound, p.cost) end
    elseif p.count_denied then
      p.kernel.count_denied(p, p.cost)
    end
    if not holds then return reply_of(OVERFLOW) end
    if (p.slots or p.bound) and p.changed then leases.pin(p) end
  end
  if hold and hold.leaves and hold.has_slots and allowed then
    for _, p in ipairs(policies) do
      if p.taken then leases.hold(p, hold.ends, hold.tag) end
    end
  end
  if leasing and allowed and operation == CHECK then
    local want, width, tag, pace = leasing[1], leasing[2], leasing[3], leasing.pace
    if pace then
      leases.pace(policies[1], want, width, tag, pace)
    else
      leases.grant(policies, want, width, tag)
    end
  end
end

-- Updates queue positions, bans and records.
--
-- makes   changes: whether anything may be written
function CHANGE_RECORDS()
  if hold and hold.waits and not allowed then queue.stand(policies) end
  if bans then bans.count(subjects, allowed) end

  -- A renewal only changes slots. A settlement that finds nothing changes no state.
  if operation == RENEW then
    for _, p in ipairs(policies) do hold.move(p, leases) end
  end
  local changes = operation ~= PEEK and not (operation == SETTLE and hold.found() ~= HOLD_LIVE)

  if hold and hold.leaves then
    if allowed then
      hold.count_out(subjects)
    else
      hold.make_room(subjects)
      queue.make_room(policies)
    end
  end
  if hold and changes then
    hold.count(subjects, allowed)
    hold.write_inline(subjects)
  end
end

-- Writes the changes, separately for each subject.
function WRITE_SUBJECTS()
  for part, s in ipairs(subjects) do
    local b = bans and bans[part]
    local dirty = b and b.changed or s.repaused or records_changed(part)
    for _, p in ipairs(s.policies) do
      if p.changed or p.restamped then dirty = true end
    end
    local has_returned = s.has_returned and operation ~= PEEK
    if dirty and changes or has_returned then
      local life
      s.lasts = life_of(s)
      LIFE(s.lasts, life)
      for _, p in ipairs(s.policies) do
        if (p.changed or p.restamped) and p.kernel.save then p.kernel.save(p, life) end
      end
      s.written = compose(s)
      if s.written == '' then
        redis.call('DEL', all_keys[first + part - 1])
      else
        redis.call('SET', all_keys[first + part - 1], s.written, 'PX', life)
      end
      if has_returned then hold.forget_returned(part) end
      -- A call that gives back by a record receives the remaining units.
      if hold and hold.changes then s.value = s.written end
    end
    if s.makes_room then hold.remove_ended(part) end
  end
end

-- Writes the records in separate keys, and replies.
function FINISH()
  local kept, given = 0, nil
  if operation == SETTLE or operation == RENEW then
    kept, given = hold.finish(subjects)
  elseif hold and hold.leaves and allowed then
    kept = hold.leave(subjects)
  end
  if operation == SETTLE then
    if queue.leave(subjects) and kept == HOLD_UNKNOWN then kept = HOLD_WAITED end
  elseif hold and hold.waits then
    given = queue.finish(policies, allowed)
  end

  local places = line and allowed and line.keep(policies, act_in)

  local reply = reply_of(allowed and ALLOWED or DENIED)
  for _, p in ipairs(policies) do
    if p.key or p.kernel.counts_records then reply[#reply + 1] = p.kernel.reading(p, p.before) end
  end
  if operation == RESERVE and allowed then
    for _, s in ipairs(subjects) do reply[#reply + 1] = s.written and split(s.written) or false end
  end
  if places then reply[#reply + 1], reply[#reply + 2] = line.turn or '', places end
  if hold and hold.is_somebodys then reply[#reply + 1], reply[#reply + 2] = kept, given end
  return reply, granted
end
