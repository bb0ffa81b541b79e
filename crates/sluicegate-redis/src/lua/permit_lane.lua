-- The fast path that takes and releases permits, for one policy without a queue, by the server's clock.
-- Unusual cases fall through, with nothing written, to the general part, which must give the same answers.
-- See permits.lua for the state, hold.lua for records, and tally.lua for their count.
--
-- reads   program, lane, server_now, late, all_keys, first, head, cost
-- sets    present: the value of the first key; sign and body, if it decides

function PERMIT_LANE()
  if (lane == TAKE_LANE or lane == RELEASE_LANE) and server_now <= late then
    local now, releases = server_now, lane == RELEASE_LANE
    local key, record_key, set = all_keys[first], all_keys[first + 1], all_keys[first + 2]
    local id, life = unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
    local _, _, limit = unpack(POLICY_TRAITS, program, FIRST_TRAITS)
    local policy = math.floor(head / 256)
    local before_all, after_all = '-', '(' .. string.char(HELD_BY_TIME + 1)
    local value = call('GET', key)
    present = value

    -- All units of the records, and the ends of the first and the last record, as far as they are known.
    local clean, all, first_end, latest, last_end, generation, groups = false, 0, 0, 0, 0, 0, {}
    READ_PERMITS()
    local before, said = all, ''
    if clean and not releases then
      TAKE_PERMITS()
    elseif clean then
      RELEASE_PERMITS()
    end
    if sign == '+' then
      local reset = math.max(0, (all > 0 and latest or now) - now)
      body = said .. pack(READING, 0, 0, math.max(0, limit - before), math.max(0, limit - all), reset, 0, 0, now)
    end
  end
end

-- Reads the state and the tally after it.
--
-- reads   value, set, head, now
-- sets    clean: whether they are valid, and no record has ended; all, first_end, latest, last_end, generation, groups
function READ_PERMITS()
  local size, kind, from = value and #value or 0, nil, nil
  if size >= PERMITS_SIZE then
    kind, _, all, first_end, latest, from = unpack(PERMITS_ENTRY, value)
    clean = kind == head and all <= MAX
  end
  if clean and first_end <= now then
    local member = redis.call('ZRANGEBYLEX', set, before_all, after_all, 'LIMIT', 0, 1)[1]
    if member then
      first_end = unpack(NUMBER, member, 2)
    else
      -- The set was removed with its last record.
      first_end, latest, all = MAX, NO_RECORD, 0
    end
    -- The general part handles ended records.
    clean = first_end > now
  end
  if clean and from <= size then
    local after
    READ_TALLY(value, from, clean, last_end, generation, groups, after)
    clean = clean and after == size + 1
  end
end

-- Takes permits and leaves their record, if there are enough and the id is not in use.
--
-- reads   what PERMIT_LANE declares
-- sets    sign, all, first_end, latest, last_end
function TAKE_PERMITS()
  local until_then, ends, live, group = now + life, nil, nil, nil
  SLOT_END(now, life, ends)
  LIVE_GROUPS(groups, now)
  LIVE_RECORDS(groups, now, live)
  if all + cost <= limit and ends <= MAX and live < HOLDS_MOST then
    local entry, found_end, lasts, lives = pack(HELD_ENTRY, policy, HELD_UNITS_SIZE, cost, now, 0, 0, AS_CHARGED),
      last_end, life, nil
    COUNT_IN(groups, ends, TALLY_GROUPS, group)
    LIFE(lasts, lives)
    local done = call('SET', record_key, pack(HELD_RECORD, until_then, group[1], generation, entry), 'PX', lives, 'NX')
    if done and done.err then
      sign = done
    elseif done then
      local member = pack(HELD_MEMBER, HELD_BY_TIME, until_then, id, entry)
      if last_end < group[1] then last_end = group[1] end
      done = call('ZADD', set, 0, member)
      if type(done) == 'table' then
        call('DEL', record_key)
        sign = done
      else
        lasts = last_end - now
        LIFE(lasts, lives)
        -- The set expires with the tally. An empty set doesn't exist.
        if last_end ~= found_end or all == 0 then redis.call('PEXPIRE', set, lives) end
        all = all + cost
        if until_then < first_end then first_end = until_then end
        if latest > 0 then
          if until_then > latest then latest = until_then end
        else
          latest = unpack(NUMBER, redis.call('ZREVRANGEBYLEX', set, after_all, before_all, 'LIMIT', 0, 1)[1], 2)
        end
        local tally
        WRITE_TALLY(last_end, now, generation, groups, tally)
        local states = pack(PERMITS_ENTRY, head, now, all, first_end, latest) .. tally
        -- A lost value is counted again from the set, so it doesn't need a longer TTL than the tally.
        if last_end == found_end then
          done = call('SET', key, states, 'KEEPTTL')
        else
          done = call('SET', key, states, 'PX', lives)
        end
        sign = '+'
        if done.err then
          -- Units that were not counted must not be held.
          call('DEL', record_key)
          call('ZREM', set, member)
          sign = done
        end
      end
    end
  end
end

-- Gives back the units of a record.
--
-- reads   what PERMIT_LANE declares
-- sets    sign, all, latest; said: number of units
function RELEASE_PERMITS()
  local record, ends, group, of = call('GET', record_key), nil, nil, nil
  clean = type(record) == 'string' and #record == HELD_HEAD_SIZE + HELD_ENTRY_SIZE
  if clean then
    ends, group, of = unpack(HELD_HEAD, record)
    clean = ends > now and of == generation
  end
  if clean then
    local then_policy, length, units = unpack(HELD_ENTRY, record, HELD_HEAD_SIZE + 1)
    if then_policy == policy and length == HELD_UNITS_SIZE and units <= all then
      local entry = string.sub(record, HELD_HEAD_SIZE + 1)
      local member = pack(HELD_MEMBER, HELD_BY_TIME, ends, id, entry)
      all = all - units
      if all == 0 then
        latest = NO_RECORD
      elseif latest == 0 or latest == ends then
        local members = redis.call('ZREVRANGEBYLEX', set, after_all, before_all, 'LIMIT', 0, 2)
        local other = members[1] == member and members[2] or members[1]
        latest = other and unpack(NUMBER, other, 2) or NO_RECORD
      end
      -- A settlement that states the used units may be repeated: then the record stays, and is counted.
      local settled, is_counted, tally = cost ~= AS_CHARGED, false, nil
      if not settled then COUNT_OUT(groups, group, is_counted) end
      WRITE_TALLY(last_end, now, generation, groups, tally)
      -- If the TTL was sufficient, it is sufficient for less.
      local done = call('SET', key, pack(PERMITS_ENTRY, head, now, all, first_end, latest) .. tally, 'KEEPTTL')
      if done.err then
        sign = done
      else
        redis.call('ZREM', set, member)
        if settled then
          redis.call('SET', record_key, pack(HELD_SETTLED, ends, group, generation, policy, NUMBER_SIZE, units),
            'KEEPTTL')
        else
          redis.call('DEL', record_key)
        end
        sign, said = '+', pack(HELD_GIVEN, HOLD_LIVE, units, '')
      end
    end
  end
end
