-- The lane of what is held of one plain bucket by the server's clock and has a record in a key of its own, where there
-- are too many for them to stand inline (grant_lane.lua). What is not as it mostly is falls through, with nothing
-- written, to the general part, whose twin this is: hold.lua says what a record is, tally.lua how records are
-- counted, and lease.lua what the second bound and its slots are.
if not sign and (lane == HOLD_LANE or lane == SETTLE_LANE) and server_now <= late then
  local max, floor, ceil = math.max, math.floor, math.ceil
  local now, ahead, key, record_key = server_now, server_now + back, all_keys[first], all_keys[first + 1]
  local one, two, three, life = unpack(HOLD_NUMBERS, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
  local value, size, from, clean, settles = present, 0, 1, true, lane == SETTLE_LANE
  local id = string.sub(program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1), #program - (HOLD_SIZE + PROGRAM_END_SIZE - 16))

  -- The state: newest time and deficit as stored, and brought to the time of judgement; the second bound, and
  -- slots with their sum, if there are any.
  local retention = head % 256
  local held_head = head - retention + max(retention, LEASE_RETENTION) + 1 + BUCKET_TO_HELD
  local newest, stored, deficit, at, found = now, 0, 0, now, ''
  local second, slots, held = nil, nil, 0
  if value and not value.err then
    size = #value
    local then_unit
    if size >= BUCKET_SIZE then
      local kind
      kind, newest, stored, then_unit, from = unpack(BUCKET_ENTRY, value)
      if kind == head then
        found = string.sub(value, 1, BUCKET_SIZE)
      elseif kind == held_head and size >= HELD_BUCKET_SIZE + LEASE_SLOT_SIZE then
        local length, leased
        kind, length, newest, stored, then_unit, second, leased, from = unpack(HELD_BUCKET, value)
        local count, last = (length - HELD_NUMBERS_SIZE) / LEASE_SLOT_SIZE, 0
        clean = leased == 0 and second <= MAX and second >= stored and count >= 1 and count <= HELD_SLOTS and count % 1 == 0 and LISTED_HEAD_SIZE + length <= size
        slots = {}
        for index = 1, clean and count or 0 do
          local ends, units, tag
          ends, units, tag, from = unpack(LEASE_SLOT, value, from)
          held = held + units
          if ends < last or ends > MAX or units == 0 or tag > MAX then clean = false end
          slots[index], last = { ends, units, tag }, ends
        end
      else
        clean = false
      end
    else
      clean = false
    end
    clean = clean and then_unit == unit and newest <= ahead and newest <= MAX and stored <= MAX
    if clean then
      if newest > now then at = newest end
      deficit = max(0, stored - (at - newest) * refill)
      if slots then
        -- What has ended, or is held of a bucket that is full, changes more than the numbers.
        clean = slots[1][1] > at and deficit > 0 and held <= floor(MAX / unit)
        found = pack(BUCKET_ENTRY, head, newest, stored, unit)
        second = max(max(0, second - (at - newest) * refill), held * unit)
        newest, stored = at, deficit
      end
    end
  elseif value or settles then
    clean = false
  end

  -- The tally, behind it.
  local said = type(value) == 'string' and string.sub(value, 1, from - 1) or ''
  local last_end, generation, groups, live = 0, 0, {}, 0
  if clean and size - from >= TALLY_SIZE - 1 and string.byte(value, from) == TALLY_KIND then
    local kind, length
    kind, length, last_end, generation, from = unpack(TALLY, value, from)
    local finish = from + length - PAIR_SIZE
    clean = kind == TALLY_HEAD and finish <= size + 1 and length % PAIR_SIZE == 0
    while clean and from < finish do
      local ends, number
      ends, number, from = unpack(PAIR, value, from)
      groups[#groups + 1] = { ends, number }
      if ends > now then live = live + number end
    end
  end
  -- The records inline, behind, stay as they are, if that of the request is not among them. Those that come are
  -- outside for want of room, or while others are there, so that their ids are found.
  local others, others_end, is_full = '', 0, live > 0
  if clean and from <= size then
    local count, _, stays, _, own = look_inline(value, from, size, now, id)
    clean = count and not own
    if clean and count > 0 then others, others_end = string.sub(value, from), stays end
    is_full = is_full or clean and count >= INLINE_MOST
  end
  clean = clean and (settles or is_full)

  local record, left, given, is_dirty, found_end = nil, nil, AS_CHARGED, false, last_end
  if clean and not settles and live < HOLDS_MOST - INLINE_MOST then
    local ticks = cost * unit
    -- The slot that it goes into.
    local fraction, exponent = math.frexp(life)
    local width = 2 ^ max(0, exponent - (fraction == 0.5 and 2 or 1))
    local ends = ceil((now + life) / width) * width
    local tag, slot = one + two + three + ends % 2 ^ 50, AS_CHARGED
    if deficit > capacity - ticks then
      clean = false
      -- Whose id is in use is not refused, but told.
      if not call('GET', record_key) then sign, body = '-', said end
    else
      clean = ends > at and ends <= MAX and held + cost <= floor(MAX / unit) and (second or 0) <= MAX - ticks
    end
    if clean then
      deficit = deficit + ticks
      if slots then
        second = second + ticks
        local place, is_free = 1, #slots < HELD_SLOTS
        for _, each in ipairs(slots) do
          if each[3] == tag then is_free = false end
          if each[1] < ends then place = place + 1 end
        end
        local each = slots[place]
        if each and (each[1] == ends or not is_free) then
          each[2], slot = each[2] + cost, each[3]
        elseif is_free then
          table.insert(slots, place, { ends, cost, tag })
          slot = tag
        end
      else
        second, slots, slot = deficit, { { ends, cost, tag } }, tag
      end
      if slot ~= AS_CHARGED then held = held + cost end
      second = max(second, held * unit)
      newest, stored = at, deficit
    end
    local until_then = math.min(now + life, MAX)
    if clean then
      is_dirty = true
      -- The group that counts it.
      local place = 1
      if groups[1] and groups[1][1] <= now then
        local kept = {}
        for _, group in ipairs(groups) do
          if group[1] > now then kept[#kept + 1] = group end
        end
        groups = kept
      end
      while groups[place] and groups[place][1] < ends do place = place + 1 end
      local group = groups[place]
      if not (group and group[1] == ends) and #groups < TALLY_GROUPS then
        group = { ends, 0 }
        table.insert(groups, place, group)
      elseif not group then
        group = groups[#groups]
        group[1] = ends
      end
      group[2], last_end = group[2] + 1, max(last_end, group[1])
      record = pack(HELD_ENTRY_LEFT, floor(head / 256), HELD_UNITS_SIZE + BUCKET_SIZE + #found, cost, at, unit, refill, slot, head, at, deficit, unit) .. found
      local done = call('SET', record_key, pack(HELD_HEAD, until_then, group[1], generation) .. record, 'PX', ceil(life / 1000) + 1, 'NX')
      if not done then
        -- The id is in use, or was.
        is_dirty = false
      elseif done.err then
        sign, is_dirty = done, false
      else
        sign, body = '+', said
      end
    end
  elseif clean and settles then
    local ends, group, of = 0, 0, 0
    record = call('GET', record_key)
    if type(record) == 'string' and #record > HELD_HEAD_SIZE then
      ends, group, of = unpack(HELD_HEAD, record)
      record = string.sub(record, HELD_HEAD_SIZE + 1)
    end
    if type(record) == 'string' and #record >= HELD_ENTRY_SIZE + BUCKET_SIZE then
      local policy, length, units, taken_at, then_unit, then_refill, slot, from = unpack(HELD_ENTRY, record)
      local used = cost == AS_CHARGED and units or cost
      local unused = units - used
      clean = ends > now and of == generation and policy == floor(head / 256) and length == HELD_UNITS_SIZE + 1 + #record - from
      clean = clean and used <= units and then_unit == unit and then_refill == refill and units <= floor(MAX / unit)
      -- Out of the slot.
      local is_bound = slots ~= nil
      if clean and is_bound then
        clean = false
        for place, each in ipairs(slots) do
          if each[3] == slot and each[2] >= units then
            each[2], held, clean = each[2] - units, held - units, true
            if each[2] == 0 then table.remove(slots, place) end
            break
          end
        end
        is_dirty = clean
      end
      if clean and unused > 0 then
        local is_last = string.sub(record, from + HEAD_SIZE, from + (BUCKET_SIZE - 1)) == string.sub(found, HEAD_SIZE + 1)
        if is_last and used == 0 and not (is_bound and slots[1]) then
          left, given, is_dirty = string.sub(record, from + BUCKET_SIZE), units, true
        else
          local was, ticks, gives = deficit, unused * unit, is_last
          if is_bound then second = max(max(0, second - ticks), held * unit) end
          if not is_last and taken_at <= at then
            local flowed = refill * (at - taken_at)
            gives, ticks = flowed < ticks, ticks - flowed
          end
          if gives then
            stored, is_dirty = max(0, stored - ticks), true
            deficit = max(0, stored - (at - newest) * refill)
          end
          given = ceil((was - deficit) / unit)
          if is_bound then
            if second < deficit then deficit, stored = second, second end
            given = ceil(was / unit) - ceil(deficit / unit)
          end
        end
      end
      if clean then
        if is_bound then second = max(second, held * unit) end
        if is_bound and not slots[1] then slots = nil end
        local done
        if cost == AS_CHARGED then
          for place, each in ipairs(groups) do
            if each[1] == group then
              each[2], is_dirty = each[2] - 1, true
              if each[2] <= 0 then table.remove(groups, place) end
              break
            end
          end
          done = call('DEL', record_key)
        else
          record = pack(HELD_SETTLED, ends, group, generation, policy, NUMBER_SIZE, given)
          done = call('SET', record_key, record, 'KEEPTTL')
        end
        if type(done) == 'table' and done.err then
          sign, is_dirty = done, false
        else
          sign = '+'
        end
      else
        is_dirty = false
      end
    end
  end

  if is_dirty then
    local lasts = deficit > 0 and at - now + deficit / refill or at - now
    local group, states, done = groups[1], nil, nil
    local has_tally = last_end > now and (generation > 0 or group)
    if has_tally then lasts = max(lasts, last_end - now) end
    lasts = max(lasts, others_end - now)
    -- Most are written in one go.
    if left and not has_tally then
      states = left
    elseif not (has_tally or slots) then
      states = pack(BUCKET_ENTRY, head, newest, stored, unit)
    else
      local words = {}
      if left then
        words[1] = left
      elseif slots then
        words[1] = pack(HELD_BUCKET, held_head, HELD_NUMBERS_SIZE + LEASE_SLOT_SIZE * #slots, newest, stored, unit, second, 0)
        for _, slot in ipairs(slots) do words[#words + 1] = pack(LEASE_SLOT, slot[1], slot[2], slot[3]) end
      else
        words[1] = pack(BUCKET_ENTRY, head, newest, stored, unit)
      end
      if has_tally then
        words[#words + 1] = pack(TALLY, TALLY_HEAD, PAIR_SIZE * (1 + #groups), last_end, generation)
        for _, each in ipairs(groups) do words[#words + 1] = pack(PAIR, each[1], each[2]) end
      end
      states = table.concat(words)
    end
    said = states
    states = states .. others
    if states == '' then
      done = call('DEL', key)
    elseif settles or last_end == found_end and now + lasts <= last_end then
      -- A life that was long enough is long enough for less, and for what ends no later.
      done = call('SET', key, states, 'KEEPTTL')
    else
      done = call('SET', key, states, 'PX', ceil(math.min(lasts, MAX) / 1000) + 1)
    end
    if type(done) == 'table' and done.err then
      -- Nothing is to be given back that was not charged.
      if not settles then call('DEL', record_key) end
      sign = done
    end
  end
  if sign == '+' and settles then body = pack(HELD_GIVEN, HOLD_LIVE, given, said) end
end

