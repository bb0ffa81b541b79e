-- The lane of what is settled of one plain bucket by the server's clock, where its record stands inline and all is as
-- it mostly is. What is not falls through, with nothing written, to hold_lane.lua; what a record is, says hold.lua, and
-- what the second bound and its slots are, lease.lua.
if lane == SETTLE_LANE and server_now <= late then
  local sub, ceil, now, key = string.sub, math.ceil, server_now, all_keys[first]
  local value = call('GET', key)
  local size, retention, from, clean = value and #value or 0, head % 256, 1, false
  local held_head = head - retention + (retention > LEASE_RETENTION and retention or LEASE_RETENTION) + 1 + BUCKET_TO_HELD
  local policy, hold = (head - retention) / 256, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1)
  -- Ids are numbers here, which are made and compared faster than texts.
  local one, two, three = unpack(HOLD_ID, program, hold)
  present = value

  -- The state as stored, with the second bound and the first slot, if units are held, and the records behind it. Most
  -- often there is one slot, the record of the request is the first, and none has ended.
  local kind, length, newest, stored, state_unit, second, leased, slot_ends, slot_units, slot_name
  local entry, bytes, stays, first_end, inlined, first_one, first_two, first_three, form, own_ends, own_size, own_head, units, taken_at, then_unit, then_refill, slot, left, found_at, found, after
  local others, tally = nil, ''
  if size >= INLINE_HELD_FIRST_SIZE then
    kind, length, newest, stored, state_unit, second, leased, slot_ends, slot_units, slot_name, entry, bytes, stays, first_end, inlined, first_one, first_two, first_three, form, own_ends, own_size, own_head, units, taken_at, then_unit, then_refill, slot, left, found_at, found, after = unpack(INLINE_HELD_FIRST, value)
    if first_one == one and first_two == two and first_three == three and kind == held_head and length == HELD_NUMBERS_SIZE + LEASE_SLOT_SIZE and entry == INLINE_HEAD and bytes == size - (HELD_BUCKET_SIZE + LEASE_SLOT_SIZE + LISTED_HEAD_SIZE) and form == INLINE_GRANTED and own_size == INLINE_GRANT_SIZE and inlined <= INLINE_MOST and stays <= MAX and first_end > now and own_ends > now and own_ends <= MAX then
      others, inlined, from = sub(value, after), inlined - 1, HELD_BUCKET_SIZE + LEASE_SLOT_SIZE + 1
    end
  elseif size >= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE then
    kind, length, newest, stored, state_unit, second, leased, slot_ends, slot_units, slot_name = unpack(HELD_FIRST_SLOT, value)
  end
  if kind == held_head then
    if not others then from = LISTED_HEAD_SIZE + length + 1 end
    clean = leased == 0 and second <= MAX and second >= stored and from <= size and from > HELD_BUCKET_SIZE + LEASE_SLOT_SIZE and from <= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE * HELD_SLOTS + 1
  elseif kind then
    kind, newest, stored, state_unit, from = unpack(BUCKET_ENTRY, value)
    clean, second = kind == head, nil
  end
  clean = clean and state_unit == unit and newest <= now + back and newest <= MAX and stored <= MAX
  if clean and not others then
    -- A tally before them stays as it is.
    local start, own, own_finish = from, nil, nil
    if string.byte(value, from) == TALLY_KIND and size - from >= TALLY_SIZE - 1 then
      start = from + LISTED_HEAD_SIZE + unpack(LENGTH, value, from + HEAD_SIZE)
      tally = sub(value, from, start - 1)
    end
    if start <= size then
      local id = sub(program, hold, hold + (INLINE_ID_SIZE - 1))
      inlined, first_end, stays, others, own_ends, form, own, own_finish = look_inline(value, start, size, now, id)
    end
    clean = own and form == INLINE_GRANTED and own_finish - own == INLINE_GRANT_SIZE - 1
    if clean then
      own_head, units, taken_at, then_unit, then_refill, slot, left, found_at, found = unpack(INLINE_GRANT, value, own)
    end
  end
  clean = clean and own_head == head and then_unit == unit and then_refill == refill and (cost <= units or cost == AS_CHARGED)

  local at, deficit = now, 0
  -- The slot that it is in.
  local held, place, place_ends, place_units = 0, nil, nil, 0
  if clean then
    if newest > now then at = newest end
    deficit = stored - (at - newest) * refill
    if deficit < 0 then deficit = 0 end
    local before, next = 0, HELD_BUCKET_SIZE + LEASE_SLOT_SIZE + 1
    while second and clean do
      -- What has ended, or is held of a bucket that is full, changes more than the numbers.
      clean = deficit > 0 and slot_ends > at and slot_ends > before and slot_ends <= MAX and slot_units > 0 and slot_name <= MAX
      held = held + slot_units
      if slot_name == slot then place, place_ends, place_units = next - LEASE_SLOT_SIZE, slot_ends, slot_units end
      if next >= from then
        clean = clean and next == from
        break
      end
      before = slot_ends
      slot_ends, slot_units, slot_name, next = unpack(LEASE_SLOT, value, next)
    end
    clean = clean and (not second or place and place_units >= units and held <= MAX / unit)
  end

  if clean then
    local is_last = taken_at == newest and left == stored
    local was, unused, given, slots, is_absent = deficit, cost == AS_CHARGED and 0 or units - cost, AS_CHARGED, '', false
    if second then
      second = second - (at - newest) * refill
      if second < held * unit then second = held * unit end
      newest, stored, held, place_units = at, deficit, held - units, place_units - units
      local rest = place_units > 0 and pack(LEASE_SLOT, place_ends, place_units, slot) or ''
      if rest ~= '' or from > HELD_BUCKET_SIZE + LEASE_SLOT_SIZE + 1 then
        slots = sub(value, HELD_BUCKET_SIZE + 1, place - 1) .. rest .. sub(value, place + LEASE_SLOT_SIZE, from - 1)
      end
    end
    if unused == 0 then
      -- As much as was taken.
    elseif is_last and unused == units and slots == '' then
      -- As it was before.
      newest, stored, given, is_absent = found_at, found, units, found_at > MAX
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
      if second then
        if second < deficit then deficit, stored = second, second end
        given = ceil(was / unit) - ceil(deficit / unit)
      else
        given = ceil((was - deficit) / unit)
      end
    end

    local whole, tells = nil, cost ~= AS_CHARGED
    if tells and own_ends < first_end then first_end = own_ends end
    if tells and own_ends > stays then stays = own_ends end
    if tells and slots == '' and tally == '' and not is_absent then
      -- What most are goes without strings of its own.
      whole = pack(INLINE_AS_SETTLED, head, newest, stored, unit, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + INLINE_RECORD_SIZE + INLINE_GIVEN_SIZE + #others, stays, first_end, inlined + 1, one, two, three, INLINE_SETTLED, own_ends, INLINE_GIVEN_SIZE, policy, given, others)
      body = pack(HELD_GIVEN_TO_BUCKET, HOLD_LIVE, given, head, newest, stored, unit)
    else
      local states = ''
      if slots ~= '' then
        states = pack(HELD_BUCKET, held_head, HELD_NUMBERS_SIZE + #slots, newest, stored, unit, second, 0) .. slots
      elseif not is_absent then
        states = pack(BUCKET_ENTRY, head, newest, stored, unit)
      end
      if tells then
        whole = pack(INLINE_SETTLED_BEHIND, states .. tally, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + INLINE_RECORD_SIZE + INLINE_GIVEN_SIZE + #others, stays, first_end, inlined + 1, one, two, three, INLINE_SETTLED, own_ends, INLINE_GIVEN_SIZE, policy, given, others)
      elseif others ~= '' then
        whole = states .. tally .. pack(INLINE, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others, stays, first_end, inlined) .. others
      else
        whole = states .. tally
      end
      body = pack(HELD_GIVEN, HOLD_LIVE, given, states)
    end
    sign = '+'
    -- A life that was long enough is long enough for less.
    if whole ~= '' then
      local done = call('SET', key, whole, 'KEEPTTL')
      if done.err then sign = done end
    else
      local done = call('DEL', key)
      if type(done) == 'table' then sign = done end
    end
  end
end
