-- The lane of a check of one plain bucket with an id, by the server's clock: one that is new, or is denied.
-- Others fall through, with nothing written, to once.lua, which says what is stored.
if lane == ONCE_LANE + SHORTEST_LANE and server_now <= late then
  local now, ahead = server_now, server_now + back
  local key, record_key, counts_key = all_keys[first], all_keys[first + 1], all_keys[first + 2]
  local value, at, deficit = call('GET', key), now, 0
  if value then
    if #value == BUCKET_SIZE then
      local held, newest, then_deficit, then_unit = unpack(BUCKET_ENTRY, value)
      if held ~= head or then_unit ~= unit or newest > ahead or newest > MAX or then_deficit > MAX then
        at = nil
      else
        if newest > now then at = newest end
        deficit = then_deficit - (at - newest) * refill
        if deficit < 0 then deficit = 0 end
      end
    else
      at = nil
    end
  end
  local ticks = cost * unit
  if at and deficit > capacity - ticks then
    -- What was allowed is, whatever else would be.
    if not call('GET', record_key) then sign, body = '-', value or '' end
  elseif at then
    local asked, life, hold = unpack(ONCE, program, #program - (ONCE_SIZE + PROGRAM_END_SIZE - 1))
    local ends = math.min(now + life, MAX)
    -- The group that counts it, if all of them live.
    local counts = call('GET', counts_key) or ''
    local size, live, group, place, number, last = #counts, 0, nil, nil, 0, 0
    local latest, clean = ends + math.floor(life / 4), size % IDS_SIZE == 0 and size < IDS_GROUPS * IDS_SIZE
    for from = 1, clean and size or 0, IDS_SIZE do
      local then_ends, ids = unpack(IDS, counts, from)
      if then_ends <= now or then_ends > now + IDS_LONGEST then clean = false end
      live = live + ids
      if then_ends > last then last = then_ends end
      if then_ends >= ends and then_ends <= latest and (not group or then_ends < group) then
        group, place, number = then_ends, from, ids
      end
    end
    if clean and type(counts) == 'string' and live < IDS_MOST then
      if group then
        counts = string.sub(counts, 1, place - 1) .. pack(IDS, group, number + 1) .. string.sub(counts, place + IDS_SIZE)
      else
        counts = counts .. pack(IDS, latest, 1)
        if latest > last then last = latest end
      end
      deficit = deficit + ticks
      local states = pack(BUCKET_ENTRY, head, at, deficit, unit)
      local record = pack(ONCE_HEAD, asked, ends, now, 0, 0, 1, hold) .. states
      local done = call('SET', record_key, record, 'PX', math.ceil(life / 1000) + 1, 'NX')
      if done and done.err then
        sign = done
      elseif done then
        local lasts = at - now + deficit / refill
        if lasts > MAX then lasts = MAX end
        sign, body = '+', states
        done = call('SET', key, states, 'PX', math.ceil(lasts / 1000) + 1)
        if done.err then
          -- What was not charged is not known.
          sign = done
          call('DEL', record_key)
        else
          done = call('SET', counts_key, counts, 'PX', math.ceil((last - now) / 1000) + 1)
          if done.err then sign = done end
        end
      end
    end
  end
end

