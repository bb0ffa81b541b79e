-- Few ids of requests stand in the subject's value, behind the state of a plain bucket, and need no keys of their own.
-- An entry of the packed states has them, as far as they have a head, a unit and a life in common:
--   KNOWN until, until when there are ids outside, that head, unit and life, and of each id, the newest first:
--   the time of judgement, the deficit that was left, what was asked, and the id
-- The entry stays until its time, and so does the key, no sooner than the last id is forgotten. Where there is none,
-- the key that counts the ids outside says whether there are any.

function KNOWN_LANE()
  -- The lane of a check of one plain bucket with an id, by the server's clock: one that is new, or is denied.
  -- Others fall through, with nothing written, to once.lua, which says what is stored.
  if lane == ONCE_LANE + SHORTEST_LANE and server_now <= late then
    local sub, now, key = string.sub, server_now, all_keys[first]
    local told = #program - (ONCE_SIZE + PROGRAM_END_SIZE - 1)
    -- What was asked is two numbers here, which are made faster than a text.
    local asked, and_asked, life, id = unpack(ONCE_ALONE, program, told)
    local value = call('GET', key)
    local size, newest, stored, clean = value and #value or 0, now, 0, not value
    local known, stays, beyond, rows = false, 0, 0, ''
    present = value
    if size == BUCKET_SIZE then
      local kind, state_unit
      kind, newest, stored, state_unit = unpack(BUCKET_ENTRY, value)
      clean = kind == head and state_unit == unit and newest <= now and stored <= MAX
    elseif size >= KNOWN_BEHIND_SIZE then
      -- They stand in the order of their times.
      local kind, state_unit, length, then_head, then_unit, then_life, judged
      kind, newest, stored, state_unit, known, length, stays, beyond, then_head, then_unit, then_life,
        judged = unpack(KNOWN_BEHIND, value)
      local begins, finish = BUCKET_SIZE + KNOWN_SIZE + 1, size
      clean = kind == head and state_unit == unit and newest <= now and stored <= MAX and known == KNOWN_HEAD
        and length == size - (BUCKET_SIZE + LISTED_HEAD_SIZE) and (size + 1 - begins) % KNOWN_ID_SIZE == 0
        and size - begins < KNOWN_MOST * KNOWN_ID_SIZE and stays <= MAX and judged <= now
      -- Those that are forgotten are the last.
      while clean and finish > begins and unpack(NUMBER, value, finish - (KNOWN_ID_SIZE - 1)) + then_life <= now do
        finish = finish - KNOWN_ID_SIZE
      end
      if clean and finish > begins then
        rows = sub(value, begins, finish)
        clean = then_head == head and then_unit == unit and then_life == life and not string.find(rows, id, 1, true)
      end
    end

    local deficit, ticks = stored, cost * unit
    DRAIN(deficit, newest, now, refill)
    local counts = clean and not known and call('GET', all_keys[first + 2])
    local are_outside = counts or beyond > now
    if not clean then
      -- Others see to it.
    elseif deficit > capacity - ticks then
      -- What was allowed is, whatever else would be.
      if not (are_outside and call('GET', all_keys[first + 1])) then sign, body = '-', value or '' end
    else
      deficit = deficit + ticks
      local states, ends, lasts = pack(BUCKET_ENTRY, head, now, deficit, unit), now + life, deficit / refill
      if ends > MAX then ends = MAX end
      if lasts > MAX then lasts = MAX end
      if not are_outside and #rows < KNOWN_MOST * KNOWN_ID_SIZE then
        local done, lives = nil, nil
        if ends > stays or now + lasts > stays then stays, lives = keep_inline(now, lasts, ends, stays) end
        local whole = pack(REMEMBERED, head, now, deficit, unit, KNOWN_HEAD,
          KNOWN_SIZE - LISTED_HEAD_SIZE + KNOWN_ID_SIZE + #rows, stays, 0, head, unit, life, now, deficit, asked,
          and_asked, id, rows)
        if lives then done = call('SET', key, whole, 'PX', lives) else done = call('SET', key, whole, 'KEEPTTL') end
        sign, body = '+', states
        if done.err then sign = done end
      else
        local record_key, counts_key = all_keys[first + 1], all_keys[first + 2]
        -- The group that counts it, if all of them live.
        if known then counts = call('GET', counts_key) end
        counts = counts or ''
        local latest, counted, length, live, group, place, number = ends + math.floor(life / 4), 0, #counts,
          #rows / KNOWN_ID_SIZE, nil, nil, 0
        clean = type(counts) == 'string' and length % IDS_SIZE == 0 and length < IDS_GROUPS * IDS_SIZE
        for from = 1, clean and length or 0, IDS_SIZE do
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
          counts = sub(counts, 1, place - 1) .. pack(IDS, group, number + 1) .. sub(counts, place + IDS_SIZE)
        elseif clean then
          counts = counts .. pack(IDS, latest, 1)
          if latest > counted then counted = latest end
        end
        local none = string.rep('\0', REQUEST_ID_SIZE)
        local done = clean and call('SET', record_key, pack(ONCE_HEAD, sub(program, told, told + (ASKED_SIZE - 1)),
          ends, now, 0, 0, 1, none) .. states, 'PX', math.ceil(life / 1000) + 1, 'NX')
        if done and done.err then
          sign = done
        elseif done then
          local whole = states
          if rows ~= '' then
            if lasts < stays - now then lasts = stays - now end
            whole = states .. pack(KNOWN, KNOWN_HEAD, KNOWN_SIZE - LISTED_HEAD_SIZE + #rows, stays, counted, head,
              unit, life) .. rows
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
end
