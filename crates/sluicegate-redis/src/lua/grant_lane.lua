-- The lane of grants: what is held of one plain bucket by the server's clock, and settled, where the records stand
-- inline and all is as it mostly is. What is not falls through, with nothing written, to hold_lane.lua; what a record
-- is, says hold.lua, and what the second bound and its slots are, lease.lua.
if (lane == HOLD_LANE or lane == SETTLE_LANE) and server_now <= late then
  local sub, now, key, settles = string.sub, server_now, all_keys[first], lane == SETTLE_LANE
  local value = call('GET', key)
  local size, retention = value and #value or 0, head % 256
  local held_head = head - retention + (retention > LEASE_RETENTION and retention or LEASE_RETENTION) + 1 + BUCKET_TO_HELD
  local hold = #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1)
  local id = sub(program, hold, hold + (INLINE_ID_SIZE - 1))
  present = value

  -- The state as stored, with the second bound, if units are held.
  local newest, stored, second, from, clean = now, 0, nil, 1, not value and not settles
  if size >= BUCKET_SIZE then
    local kind, then_unit = string.byte(value), nil
    if kind == BUCKET_KIND then
      kind, newest, stored, then_unit, from = unpack(BUCKET_ENTRY, value)
      clean = kind == head
    elseif size >= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE then
      local length, leased
      kind, length, newest, stored, then_unit, second, leased = unpack(HELD_BUCKET, value)
      local slots = (length - HELD_NUMBERS_SIZE) / LEASE_SLOT_SIZE
      clean = kind == held_head and leased == 0 and second <= MAX and second >= stored and slots >= 1 and slots <= HELD_SLOTS and slots % 1 == 0 and length <= size - LISTED_HEAD_SIZE
      from = LISTED_HEAD_SIZE + length + 1
    end
    clean = clean and then_unit == unit and newest <= now + back and newest <= MAX and stored <= MAX
  end

  -- The records behind it, and a tally before them that stays as it is; who comes where there is one, comes outside.
  local inlined, first_end, stays, others, own_ends, own, own_finish, tally, start = 0, MAX, 0, '', nil, nil, nil, '', from
  if clean and settles and string.byte(value, from) == TALLY_KIND and size - from >= TALLY_SIZE - 1 then
    start = from + LISTED_HEAD_SIZE + unpack(LENGTH, value, from + HEAD_SIZE)
    tally = sub(value, from, start - 1)
  end
  if clean and start <= size then
    inlined, first_end, stays, others, own_ends, own, own_finish = look_inline(value, start, size, now, INLINE_HOLD, id)
    clean = inlined ~= nil
  end
  if clean and settles then
    clean = own ~= nil and own_finish - own >= HELD_LEFT_SIZE - 1
  elseif clean then
    clean = not own and inlined < INLINE_MOST
  end

  if clean then
    local at = newest > now and newest or now
    local deficit = stored - (at - newest) * refill
    if deficit < 0 then deficit = 0 end
    -- What comes, or what is settled, and the slot that it is looked for in.
    local policy, own_policy, _, life, ends, tag, length, units, taken_at, then_unit, then_refill, slot, left_at, left_deficit, left_unit, left
    policy = math.floor(head / 256)
    if settles then
      own_policy, length, units, taken_at, then_unit, then_refill, slot, _, left_at, left_deficit, left_unit, left = unpack(HELD_ENTRY_LEFT, value, own)
      clean = own_policy == policy and length == own_finish - own - (ID_SIZE + 1) and then_unit == unit and then_refill == refill and (cost <= units or cost == AS_CHARGED)
    else
      local one, two, three
      one, two, three, life = unpack(HOLD_NUMBERS, program, hold)
      local fraction, exponent = math.frexp(life)
      local width = 2 ^ (exponent - (fraction == 0.5 and 2 or 1))
      if width < 1 then width = 1 end
      ends = math.ceil((now + life) / width) * width
      tag = one + two + three + ends % 2 ^ 50
      clean = ends > at and ends <= MAX
    end
    local held, is_there, place, slot_units = 0, false, HELD_BUCKET_SIZE + 1, 0
    if second then
      local next, before = place, 0
      while clean and next < from do
        local each, number, name, after = unpack(LEASE_SLOT, value, next)
        -- What has ended changes more than the numbers.
        clean = each > at and each > before and each <= MAX and number > 0 and name <= MAX
        held = held + number
        if name == slot or each == ends then
          is_there, place, slot_units, ends, tag = true, next, number, each, name
        elseif not settles then
          if name == tag then clean = false end
          if each < ends then place = after end
        end
        next, before = after, each
      end
      second = second - (at - newest) * refill
      if second < held * unit then second = held * unit end
      clean = clean and deficit > 0 and held <= MAX / unit
    end

    local states, slots, whole, given, done = nil, '', nil, AS_CHARGED, nil
    if not clean then
      -- Others see to it.
    elseif not settles then
      local ticks = cost * unit
      if deficit > capacity - ticks then
        sign, body = '-', value and sub(value, 1, from - 1) or ''
      elseif held + cost <= MAX / unit and (second or 0) <= MAX - ticks and (is_there or from <= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE * (HELD_SLOTS - 1) + 1) then
        local found, old = '', nil
        deficit = deficit + ticks
        if second then
          old = sub(value, 1, from - 1)
          found, second = pack(BUCKET_ENTRY, head, newest, stored, unit), second + ticks
          if second < (held + cost) * unit then second = (held + cost) * unit end
          slots = sub(value, HELD_BUCKET_SIZE + 1, place - 1) .. pack(LEASE_SLOT, ends, slot_units + cost, tag) .. sub(value, is_there and place + LEASE_SLOT_SIZE or place, from - 1)
        else
          if value then found = sub(value, 1, BUCKET_SIZE) end
          old, second, slots = found, deficit, pack(LEASE_SLOT, ends, cost, tag)
        end
        local length, until_then = HELD_LEFT_SIZE + #found, now + life
        if until_then < first_end then first_end = until_then end
        local lives = nil
        stays, lives = keep_inline(now, at - now + deficit / refill, until_then, stays)
        whole = pack(INLINE_GRANTED, held_head, HELD_NUMBERS_SIZE + #slots, at, deficit, unit, second, 0, slots, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others + INLINE_RECORD_SIZE + length, stays, first_end, inlined + 1, id, INLINE_HOLD, until_then, length, policy, length - (ID_SIZE + 2), cost, at, unit, refill, tag, head, at, deficit, unit, found, others)
        sign, body = '+', old
        if lives then done = call('SET', key, whole, 'PX', lives) else done = call('SET', key, whole, 'KEEPTTL') end
      end
    elseif not second or is_there and slot_units >= units then
      local is_last = left_at == newest and left_deficit == stored and left_unit == unit
      local was, unused = deficit, cost == AS_CHARGED and 0 or units - cost
      if second then
        newest, stored, held, slot_units = at, deficit, held - units, slot_units - units
        local rest = slot_units > 0 and pack(LEASE_SLOT, ends, slot_units, tag) or ''
        if slot_units > 0 or from > HELD_BUCKET_SIZE + LEASE_SLOT_SIZE + 1 then
          slots = sub(value, HELD_BUCKET_SIZE + 1, place - 1) .. rest .. sub(value, place + LEASE_SLOT_SIZE, from - 1)
        end
      end
      if unused == 0 then
        -- As much as was taken.
      elseif is_last and unused == units and slots == '' then
        states, given = sub(value, left, own_finish), units
      else
        local ticks, gives = unused * unit, is_last
        if second then
          second = second - ticks
          if second < 0 then second = 0 end
          if second < held * unit then second = held * unit end
        end
        if not is_last and taken_at <= at then
          local flowed = refill * (at - taken_at)
          gives, ticks = flowed < ticks, ticks - flowed
        end
        if gives then
          stored = stored - ticks
          if stored < 0 then stored = 0 end
          deficit = stored - (at - newest) * refill
          if deficit < 0 then deficit = 0 end
        end
        given = math.ceil((was - deficit) / unit)
        if second then
          if second < deficit then deficit, stored = second, second end
          given = math.ceil(was / unit) - math.ceil(deficit / unit)
        end
      end
      if states then
        -- As it was before.
      elseif slots ~= '' then
        states = pack(HELD_BUCKET, held_head, HELD_NUMBERS_SIZE + #slots, newest, stored, unit, second, 0) .. slots
      else
        states = pack(BUCKET_ENTRY, head, newest, stored, unit)
      end
      if cost ~= AS_CHARGED then
        if own_ends < first_end then first_end = own_ends end
        if own_ends > stays then stays = own_ends end
        whole = pack(INLINE_SETTLED, states, tally, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others + INLINE_RECORD_SIZE + INLINE_SETTLED_LENGTH, stays, first_end, inlined + 1, others, id, INLINE_HOLD, own_ends, INLINE_SETTLED_LENGTH, policy, NUMBER_SIZE, given)
      elseif others ~= '' then
        whole = states .. tally .. pack(INLINE, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others, stays, first_end, inlined) .. others
      else
        whole = states .. tally
      end
      sign, body = '+', pack(HELD_GIVEN, HOLD_LIVE, given, states)
      -- A life that was long enough is long enough for less.
      if whole == '' then done = call('DEL', key) else done = call('SET', key, whole, 'KEEPTTL') end
    end
    if done and type(done) == 'table' and done.err then sign = done end
  end
end
