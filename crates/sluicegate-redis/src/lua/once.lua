-- A request with an id is charged once. A repeat is answered from the record of the id. It is inline
-- (bucket_lane.lua) or has a separate key with:
--
--   the request's digest, the end of its validity, the evaluation time, the units granted by a take, notes, whether
--   it is brief. Then follow the id of its hold and the packed states as written, if it is brief. Otherwise the
--   whole reply follows the id, each word after its length
--
-- A key of the subject counts the valid ids. It has groups of ids that expire by a time, each with that time
-- and their number. A group ends no later than a quarter of a lifetime after any of its ids.

function ANSWER_ONCE()
  if lane >= ONCE_LANE then
    -- Returns the number of inline ids of a value, the record of one, and the place of the entry.
    local function inlined(value, now, id)
      local place, size, count, record = nil, 0, 0, nil
      walk(value, function(position, length)
        if string.byte(value, position) == KNOWN_KIND and length >= KNOWN_SIZE then place, size = position, length end
      end)
      if not place then return 0 end
      local _, _, _, _, head, unit, life, from = unpack(KNOWN, value, place)
      while from + (KNOWN_ID_SIZE - 1) < place + size do
        local judged, deficit, asked, each
        judged, deficit, asked, each, from = unpack(KNOWN_ID, value, from)
        local ends = math.min(judged + life, MAX)
        if ends > now then
          count = count + 1
          if each == id then
            record = pack(ONCE_HEAD, asked, ends, judged, 0, 0, 1, string.rep('\0', REQUEST_ID_SIZE))
              .. pack(BUCKET_ENTRY, head, judged, deficit, unit)
          end
        end
      end
      return count, record, place
    end

    -- Writes the time when the ids with separate keys expire into the entry of the inline ids, if there is one.
    local function tell_inline(key, ends)
      local value = call('GET', key)
      if type(value) ~= 'string' then return end
      walk(value, function(position, length)
        if string.byte(value, position) == KNOWN_KIND and length >= KNOWN_SIZE then
          redis.call('SETRANGE', key, position + (LISTED_HEAD_SIZE + NUMBER_SIZE - 1), pack(NUMBER, ends))
        end
      end)
    end

    answer = function(lane, _, value)
      if server_now > late then return '<', '' end
      lane = lane - ONCE_LANE
      local now, shortest = server_now, 0
      if lane >= INJECTED then now, shortest = back, INJECTED_LIFE end
      local operation, parts = unpack(PROGRAM_END, program, #program - (PROGRAM_END_SIZE - 1))
      local after, key = PROGRAM_END_SIZE, first + keys - 2
      if operation >= HELD then
        -- The flags are the last byte of a hold.
        local is_indexed = string.byte(program, #program - PROGRAM_END_SIZE) >= INDEXED
        after, key = after + HOLD_SIZE, key - parts * (is_indexed and 2 or 1)
      end
      local asked, life, id, hold = unpack(ONCE, program, #program - (ONCE_SIZE + after - 1))
      local record_key, counts_key = all_keys[key], all_keys[key + 1]
      local function said(verdict, record)
        return { tag .. clock[1] .. ' ' .. clock[2] .. '#', verdict, now, 0, record }
      end

      local known, record, place = 0, nil, nil
      if value == nil then value = call('GET', all_keys[first]) end
      if type(value) == 'string' then known, record, place = inlined(value, now, id) end
      record = record or call('GET', record_key)
      if type(record) == 'string' and #record >= ONCE_HEAD_SIZE then
        local then_asked, ends = unpack(ONCE_HEAD, record)
        if ends > now and ends <= MAX then
          if then_asked ~= asked then return said(ASKS_OTHERWISE) end
          return said(REPEATED, record)
        end
      end

      local counts, groups, live = call('GET', counts_key), nil, nil
      READ_IDS(counts, now, groups, live)
      live = live + known
      if live >= IDS_MOST then return said(FULL_OF_IDS) end

      local sign, body = decide(lane, 1, value)
      local brief, notes, granted = 1, 0, 0
      if type(sign) == 'table' then
        if sign.err or sign[2] ~= ALLOWED then return sign, body end
        brief, notes, granted = 0, sign[4], body or 0
        local items = {}
        for index = 5, #sign do
          local item = sign[index]
          items[2 * index], items[2 * index + 1] = pack(WORD_LENGTH, item and #tostring(item) or NO_WORD), item
            and tostring(item) or ''
        end
        body = table.concat(items, '', 10, 2 * #sign + 1)
      elseif sign ~= '+' then
        return sign, body
      end

      local ends = math.min(now + life, MAX)
      record = pack(ONCE_HEAD, asked, ends, now, granted, notes, brief, hold) .. body
      local lasts, lives, counted = math.max(life, shortest), nil, nil
      LIFE(lasts, lives)
      redis.call('SET', record_key, record, 'PX', lives)

      COUNT_ID(groups, ends, life, counted)
      WRITE_IDS(groups, counts)
      lasts = math.max(shortest, counted - now)
      if place then tell_inline(all_keys[first], math.min(now + lasts, MAX)) end
      LIFE(lasts, lives)
      redis.call('SET', counts_key, counts, 'PX', lives)
      if brief == 0 then return sign end
      return sign, string.sub(record, ONCE_HEAD_SIZE + 1)
    end
  end
end
