-- The lane of grants: what is held of one plain bucket by the server's clock, where the records stand inline and all
-- is as it mostly is. What is not falls through, with nothing written, to hold_lane.lua; what a record is, says
-- hold.lua, and what the second bound and its slots are, lease.lua.
if lane == HOLD_LANE and server_now <= late then
  local sub, now, key = string.sub, server_now, all_keys[first]
  local value = call('GET', key)
  local size, retention = value and #value or 0, head % 256
  local held_head = head - retention + (retention > LEASE_RETENTION and retention or LEASE_RETENTION) + 1 + BUCKET_TO_HELD
  local hold = #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1)
  local id = sub(program, hold, hold + (INLINE_ID_SIZE - 1))
  present = value

  -- The state as stored, with the second bound, if units are held.
  local newest, stored, second, from, clean = now, 0, nil, 1, not value
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

  -- The records behind it; who comes where there is a tally, comes outside.
  local inlined, first_end, stays, others = 0, MAX, 0, ''
  if clean and from <= size then
    local own
    inlined, first_end, stays, others, own = look_inline(value, from, size, now, id)
    clean = inlined and not own and inlined < INLINE_MOST
  end

  if clean then
    local at = newest > now and newest or now
    local deficit = stored - (at - newest) * refill
    if deficit < 0 then deficit = 0 end
    -- The slot that it goes into.
    local one, two, three, life = unpack(HOLD_NUMBERS, program, hold)
    local fraction, exponent = math.frexp(life)
    local width = 2 ^ (exponent - (fraction == 0.5 and 2 or 1))
    if width < 1 then width = 1 end
    local ends = math.ceil((now + life) / width) * width
    local tag = one + two + three + ends % 2 ^ 50
    clean = ends > at and ends <= MAX
    local held, is_there, place, slot_units = 0, false, HELD_BUCKET_SIZE + 1, 0
    if second then
      local next, before = place, 0
      while clean and next < from do
        local each, number, name, after = unpack(LEASE_SLOT, value, next)
        -- What has ended changes more than the numbers.
        clean = each > at and each > before and each <= MAX and number > 0 and name <= MAX
        held = held + number
        if each == ends then
          is_there, place, slot_units, tag = true, next, number, name
        else
          if name == tag then clean = false end
          if each < ends then place = after end
        end
        next, before = after, each
      end
      second = second - (at - newest) * refill
      if second < held * unit then second = held * unit end
      clean = clean and deficit > 0 and held <= MAX / unit
    end

    local ticks = cost * unit
    if not clean then
      -- Others see to it.
    elseif deficit > capacity - ticks then
      sign, body = '-', value and sub(value, 1, from - 1) or ''
    elseif held + cost <= MAX / unit and (second or 0) <= MAX - ticks and (is_there or from <= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE * (HELD_SLOTS - 1) + 1) then
      -- What was found, as what is settled brings it back.
      local found_at, found, old, slots = newest, stored, '', nil
      deficit = deficit + ticks
      if second then
        old = sub(value, 1, from - 1)
        second = second + ticks
        if second < (held + cost) * unit then second = (held + cost) * unit end
        slots = sub(value, HELD_BUCKET_SIZE + 1, place - 1) .. pack(LEASE_SLOT, ends, slot_units + cost, tag) .. sub(value, is_there and place + LEASE_SLOT_SIZE or place, from - 1)
      else
        if value then old = sub(value, 1, BUCKET_SIZE) else found_at = AS_CHARGED end
        second, slots = deficit, pack(LEASE_SLOT, ends, cost, tag)
      end
      local until_then = now + life
      if until_then < first_end then first_end = until_then end
      local lives, done = nil, nil
      stays, lives = keep_inline(now, at - now + deficit / refill, until_then, stays)
      local whole = pack(INLINE_AS_GRANTED, held_head, HELD_NUMBERS_SIZE + #slots, at, deficit, unit, second, 0, slots, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + INLINE_RECORD_SIZE + INLINE_GRANT_SIZE + #others, stays, first_end, inlined + 1, id, INLINE_GRANTED, until_then, INLINE_GRANT_SIZE, head, cost, at, unit, refill, tag, deficit, found_at, found, others)
      sign, body = '+', old
      if lives then done = call('SET', key, whole, 'PX', lives) else done = call('SET', key, whole, 'KEEPTTL') end
      if done.err then sign = done end
    end
  end
end
