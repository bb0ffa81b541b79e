-- The lane of a check of one plain bucket with an id, by the server's clock: one that is new, or is denied.
-- Others fall through, with nothing written, to once.lua, which says what is stored.
if lane == ONCE_LANE + SHORTEST_LANE and server_now <= late then
  local now, key, record_key, counts_key = server_now, all_keys[first], all_keys[first + 1], all_keys[first + 2]
  local asked, life, id = unpack(ONCE_ALONE, program, #program - (ONCE_SIZE + PROGRAM_END_SIZE - 1))
  local value = call('GET', key)
  present = value
  local newest, stored, clean = now, 0, not value
  local inlined, first_end, stays, others = 0, MAX, 0, ''
  if value and #value >= BUCKET_SIZE then
    local kind, then_unit, from
    kind, newest, stored, then_unit, from = unpack(BUCKET_ENTRY, value)
    clean = kind == head and then_unit == unit and newest <= now + back and newest <= MAX and stored <= MAX
    if clean and from <= #value then
      local known
      inlined, first_end, stays, others, known = look_inline(value, from, #value, now, INLINE_ID, id)
      clean = inlined and not known
    end
  end
  local at = newest > now and newest or now
  local deficit, ticks = stored - (at - newest) * refill, cost * unit
  if deficit < 0 then deficit = 0 end
  if not clean then
    -- Others see to it.
  elseif deficit > capacity - ticks then
    -- What was allowed is, whatever else would be.
    if not call('GET', record_key) then sign, body = '-', value or '' end
  else
    deficit = deficit + ticks
    local ends, counts = now + life, call('GET', counts_key)
    local states, lasts = pack(BUCKET_ENTRY, head, at, deficit, unit), at - now + deficit / refill
    if ends > MAX then ends = MAX end
    if lasts > MAX then lasts = MAX end
    if not counts and inlined < INLINE_MOST then
      local done, lives = nil, nil
      stays, lives = keep_inline(now, lasts, ends, stays)
      if ends < first_end then first_end = ends end
      local whole = pack(INLINE_REMEMBERED, states, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + INLINE_RECORD_SIZE + INLINE_ONCE_SIZE + BUCKET_SIZE + #others, stays, first_end, inlined + 1, id, INLINE_ID, ends, INLINE_ONCE_SIZE + BUCKET_SIZE, asked, now, states, others)
      if lives then done = call('SET', key, whole, 'PX', lives) else done = call('SET', key, whole, 'KEEPTTL') end
      sign, body = '+', states
      if done.err then sign = done end
    else
      -- The group that counts it, if all of them live.
      counts = counts or ''
      local latest, counted, size, live, group, place, number = ends + math.floor(life / 4), 0, #counts, inlined, nil, nil, 0
      clean = type(counts) == 'string' and size % IDS_SIZE == 0 and size < IDS_GROUPS * IDS_SIZE
      for from = 1, clean and size or 0, IDS_SIZE do
        local then_ends, ids = unpack(IDS, counts, from)
        if then_ends <= now or then_ends > now + IDS_LONGEST then clean = false end
        live = live + ids
        if then_ends > counted then counted = then_ends end
        if then_ends >= ends and then_ends <= latest and (not group or then_ends < group) then
          group, place, number = then_ends, from, ids
        end
      end
      clean = clean and live < IDS_MOST
      if clean and group then
        counts = string.sub(counts, 1, place - 1) .. pack(IDS, group, number + 1) .. string.sub(counts, place + IDS_SIZE)
      elseif clean then
        counts = counts .. pack(IDS, latest, 1)
        if latest > counted then counted = latest end
      end
      local none = string.rep('\0', INLINE_ID_SIZE)
      local done = clean and call('SET', record_key, pack(ONCE_HEAD, asked, ends, now, 0, 0, 1, none) .. states, 'PX', math.ceil(life / 1000) + 1, 'NX')
      if done and done.err then
        sign = done
      elseif done then
        local whole = states
        if others ~= '' then
          if lasts < stays - now then lasts = stays - now end
          whole = states .. pack(INLINE, INLINE_HEAD, INLINE_SIZE - LISTED_HEAD_SIZE + #others, stays, first_end, inlined) .. others
        end
        sign, body = '+', states
        done = call('SET', key, whole, 'PX', math.ceil(lasts / 1000) + 1)
        if done.err then
          -- What was not charged is not known.
          sign = done
          call('DEL', record_key)
        else
          done = call('SET', counts_key, counts, 'PX', math.ceil((counted - now) / 1000) + 1)
          if done.err then sign = done end
        end
      end
    end
  end
end
