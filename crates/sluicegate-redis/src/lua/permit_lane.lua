-- The lane of permits without a queue, of one policy by the server's clock: takes, and releases of those. What is not
-- as it mostly is falls through, with nothing written, to the general part, whose twin this is: permits.lua says what
-- the state is, hold.lua what a record is, and tally.lua how records are counted.

function PERMIT_LANE()
  if (lane == TAKE_LANE or lane == RELEASE_LANE) and server_now <= late then
    local sub, now, releases = string.sub, server_now, lane == RELEASE_LANE
    local key, record_key, set = all_keys[first], all_keys[first + 1], all_keys[first + 2]
    local id, life = unpack(HOLD, program, #program - (HOLD_SIZE + PROGRAM_END_SIZE - 1))
    local _, _, limit = unpack(POLICY_TRAITS, program, FIRST_TRAITS)
    local value = call('GET', key)
    present = value

    -- All units of the records, and when the first and the last of those end, as far as that is known.
    local size, clean, kind, all, first_end, latest, from = value and #value or 0, false, nil, 0, 0, 0, 1
    if size >= PERMITS_SIZE then
      kind, _, all, first_end, latest, from = unpack(PERMITS_ENTRY, value)
      clean = kind == head and all <= MAX
    end
    if clean and first_end <= now then
      local member = redis.call('ZRANGEBYLEX', set, '-', '(' .. string.char(HELD_BY_TIME + 1), 'LIMIT', 0, 1)[1]
      if member then
        first_end = unpack(NUMBER, member, 2)
      else
        -- The set has gone with its last record.
        first_end, latest, all = MAX, NO_RECORD, 0
      end
      -- What has ended is the general part's.
      clean = first_end > now
    end
    -- The tally, behind it, and where its groups begin.
    local found_end, generation, start = 0, 0, from
    if clean and from <= size then
      clean = size - from >= TALLY_SIZE - 1
      if clean then
        local length
        kind, length, found_end, generation, start = unpack(TALLY, value, from)
        clean = kind == TALLY_HEAD and start + length == size + 1 + PAIR_SIZE and length % PAIR_SIZE == 0
      end
    end

    local before, last_end, said = all, found_end, ''
    if clean and not releases then
      local until_then, ends = now + life, nil
      SLOT_END(now, life, ends)
      -- The group that counts it: of those that have not ended, which come last.
      local next, place, number, is_new, groups, live = start, start, 0, true, 0, 0
      while next <= size do
        local each, some, after = unpack(PAIR, value, next)
        if each <= now then
          start, place = after, after
        else
          groups, live = groups + 1, live + some
          if each < ends then place = after elseif each == ends then is_new, number = false, some end
        end
        next = after
      end
      if all + cost <= limit and ends <= MAX and live < HOLDS_MOST and (groups < TALLY_GROUPS or not is_new) then
        local entry = pack(HELD_ENTRY, math.floor(head / 256), HELD_UNITS_SIZE, cost, now, 0, 0, AS_CHARGED)
        local done = call('SET', record_key, pack(HELD_RECORD, until_then, ends, generation, entry), 'PX',
          math.ceil(life / 1000) + 1, 'NX')
        if done and done.err then
          sign = done
        elseif done then
          local member = pack(HELD_MEMBER, HELD_BY_TIME, until_then, id, entry)
          if last_end < ends then last_end = ends end
          done = call('ZADD', set, 0, member)
          if type(done) == 'table' then
            call('DEL', record_key)
            sign = done
          else
            -- The set lives as long as the tally. An empty one was none.
            if is_new or all == 0 then redis.call('PEXPIRE', set, math.ceil((last_end - now) / 1000) + 1) end
            all = all + cost
            if until_then < first_end then first_end = until_then end
            if latest > 0 then
              if until_then > latest then latest = until_then end
            else
              latest = unpack(NUMBER, redis.call('ZREVRANGEBYLEX', set, '(' .. string.char(HELD_BY_TIME + 1), '-',
                'LIMIT', 0, 1)[1], 2)
            end
            local tallied, rest = sub(value, start, place - 1), sub(value, is_new and place or place + PAIR_SIZE, size)
            local states = pack(TAKEN, head, now, all, first_end, latest, TALLY_HEAD, 2 * PAIR_SIZE + #tallied + #rest,
              last_end, generation, tallied, ends, number + 1, rest)
            -- What is in flight is counted anew if the value is lost: it need live no longer than the tally.
            if last_end == found_end then
              done = call('SET', key, states, 'KEEPTTL')
            else
              done = call('SET', key, states, 'PX', math.ceil((last_end - now) / 1000) + 1)
            end
            sign = '+'
            if done.err then
              -- Nothing is held that was not counted.
              call('DEL', record_key)
              call('ZREM', set, member)
              sign = done
            end
          end
        end
      end
    elseif clean then
      local record = call('GET', record_key)
      if type(record) == 'string' and #record == HELD_HEAD_SIZE + HELD_ENTRY_SIZE then
        local ends, group, of = unpack(HELD_HEAD, record)
        local policy, length, units = unpack(HELD_ENTRY, record, HELD_HEAD_SIZE + 1)
        if ends > now and of == generation and policy == math.floor(head / 256) and length == HELD_UNITS_SIZE
          and units <= all then
          local entry = sub(record, HELD_HEAD_SIZE + 1)
          local member = pack(HELD_MEMBER, HELD_BY_TIME, ends, id, entry)
          all = all - units
          if all == 0 then
            latest = NO_RECORD
          elseif latest == 0 or latest == ends then
            local members = redis.call('ZREVRANGEBYLEX', set, '(' .. string.char(HELD_BY_TIME + 1), '-', 'LIMIT', 0, 2)
            local other = members[1] == member and members[2] or members[1]
            latest = other and unpack(NUMBER, other, 2) or NO_RECORD
          end
          -- Who says what was used may ask again: then the record stays, and is counted.
          local settled, next, tallied = cost ~= AS_CHARGED, start, sub(value, start)
          while not settled and next <= size do
            local each, number, after = unpack(PAIR, value, next)
            if each == group then
              local rest = number > 1 and pack(PAIR, each, number - 1) or ''
              tallied = sub(value, start, next - 1) .. rest .. sub(value, after)
              break
            end
            next = after
          end
          local states = pack(PERMITS_ENTRY, head, now, all, first_end, latest)
          if last_end > now and (generation > 0 or tallied ~= '') then
            states = states .. pack(TALLY, TALLY_HEAD, PAIR_SIZE + #tallied, last_end, generation) .. tallied
          end
          -- A life that was long enough is long enough for less.
          local done = call('SET', key, states, 'KEEPTTL')
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
    if sign == '+' then
      local last = all > 0 and latest or now
      local reset = math.max(0, last - now)
      body = said .. pack(READING, 0, 0, math.max(0, limit - before), math.max(0, limit - all), reset, 0, 0, now)
    end
  end
end
