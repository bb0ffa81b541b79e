-- The express lane: plain checks of small policies whose states are absent or stand in the value
-- just as the program lists them. Anything else falls through to the general part below.

function EXPRESS_LANE()
  local sub, ceil = string.sub, math.ceil
  local size = value and #value or 0

  -- One of several replies to what was asked several times.
  local whole = times > 1 and function(sign, body)
    if type(sign) == 'table' then return sign end
    return tag .. clock[1] .. ' ' .. clock[2] .. sign .. body
  end

  if lane ~= GENERAL_LANE and (size > 0 or not value) then
    -- An id takes less than a policy.
    local count = math.floor((#program - PROGRAM_FRAME) / POLICY_SIZE)
    -- Of what is asked several times, the value is read once and written once, with the last life.
    local turns, written_life = times > 1 and {}, nil
    for time = 1, times do
      local sign, body = nil, nil
      local out, states = count > 1 and {} or nil, nil
      local briefs, brief = nil, nil
      local life, from, clean, denied, at_offset = shortest, 1, true, false, FIRST_POLICY
      local logs, entries, readings
      -- The head came with the first policy's numbers: x, y and z, which each kernel gives its own
      -- names, and the cost.
      local id, x, y, z, cost = head, unit, refill, capacity, cost
      local kind, flags, limit = unpack(POLICY_TRAITS, program, FIRST_TRAITS)
      for index = 1, count do
        if index > 1 then
          id, x, y, z, cost, kind, flags, limit = unpack(POLICY, program, at_offset)
        end
        local at, entry = now, nil
        local lasts = 0
        if kind == BUCKET_KIND then
          local unit, refill, capacity = x, y, z
          local deficit, ticks, room = 0, cost * unit, capacity
          if flags == 0 then
            room = capacity - ticks
          else -- smooth, which passes once the debt is paid: fresh deficit and shortest life
            deficit, lasts = unpack(PAIR, program, at_offset + POLICY_FURTHER)
          end
          if value then
            if size - from < BUCKET_SIZE - 1 then clean = false break end
            local held, newest, then_unit
            held, newest, deficit, then_unit, from = unpack(BUCKET_ENTRY, value, from)
            if held ~= id or then_unit ~= unit or newest > ahead or newest > MAX or deficit > MAX then
              clean = false
              break
            end
            if newest > now then at = newest end
            DRAIN(deficit, newest, at, refill)
          end
          if deficit > room then
            denied = true
          else
            deficit = deficit + ticks
            local empties = at - now + deficit / refill
            if empties > lasts then lasts = empties end
            entry = pack(BUCKET_ENTRY, id, at, deficit, unit)
          end
        elseif kind == WINDOW_KIND then -- first admitted or aligned
          local anchor, length = x, y
          local start, used = now, 0
          if anchor == ALIGNED then start = now - now % length end
          if value then
            if size - from < WINDOW_SIZE - 1 then clean = false break end
            local held, newest, then_start, then_used
            held, newest, then_start, then_used, from = unpack(WINDOW_ENTRY, value, from)
            if held ~= id or newest > ahead or newest > MAX or then_start > newest or then_used > MAX then
              clean = false
              break
            end
            if newest > now then at = newest end
            start = at
            if anchor == ALIGNED then
              start = at - at % length
              if then_start == start then used = then_used end
            elseif at < then_start + length then
              start, used = then_start, then_used
            end
          end
          if used > limit - cost then
            denied = true
          else
            lasts = start + length - now
            entry = pack(WINDOW_ENTRY, id, at, start, used + cost)
          end
        elseif kind == COUNTER_KIND then -- a cell's length in µs and in steps
          local length, step, steps = x, y, z
          local previous, current, start = 0, 0, now - now % length
          if value then
            if size - from < COUNTER_SIZE - 1 then clean = false break end
            local held, newest, then_start, then_previous, then_current
            held, newest, then_start, then_previous, then_current, from = unpack(COUNTER_ENTRY, value, from)
            if held ~= id or newest > ahead or newest > MAX or then_start > newest or then_previous > MAX
              or then_current > MAX then
              clean = false
              break
            end
            if newest > now then at = newest end
            start = at - at % length
            if start == then_start then
              previous, current = then_previous, then_current
            elseif start - then_start == length then
              previous = then_current
            end
          end
          local room = limit - cost - current
          local left = steps - math.floor((at - start) / step)
          if room < 0 or previous > 0 and left > math.floor(room * steps / previous) then
            denied = true
          else
            lasts = start + 2 * length - now
            entry = pack(COUNTER_ENTRY, id, at, start, previous, current + cost)
          end
        elseif kind == LOG_KIND then -- exact, of one strategy; the entries are in a key of their own
          local length = y
          logs, entries, readings = (logs or 0) + 1, entries or {}, readings or {}
          local key, base, total, first, stored, retry, newest = all_keys[first + logs], 0, 0, 0, 0, 0, 0
          if value then
            if size - from < LOG_SIZE - 1 then clean = false break end
            local held
            held, newest, base, total, first, stored, from = unpack(LOG_ENTRY, value, from)
            -- When more have left than LOG_SLACK and than are left, the general part drops them.
            if held ~= id or newest > ahead or newest > MAX or total > MAX - cost or first >= stored
              or first > LOG_SLACK and 2 * first > stored or stored > 2 * (LOG_ENTRIES + LOG_SLACK) then
              clean = false
              break
            end
            if newest > now then at = newest end
            -- What has left is among the oldest, most often one or two.
            local block, place = call('GETRANGE', key, PAIR_SIZE * first, PAIR_SIZE * first + (8 * PAIR_SIZE - 1)), 1
            local stamp, running
            if type(block) ~= 'string' then clean = false break end
            repeat
              if place + (PAIR_SIZE - 1) > #block then clean = false break end
              if running then base, first = running, first + 1 end
              stamp, running, place = unpack(PAIR, block, place)
            until stamp + length > at
            if not clean then break end
            local excess = total - base + cost - limit
            while excess > 0 and running - base < excess do
              if place + (PAIR_SIZE - 1) > #block then clean = false break end
              stamp, running, place = unpack(PAIR, block, place)
            end
            if not clean then break end
            if excess > 0 then retry = stamp + length - at end
          elseif cost > limit then
            clean = false
            break
          end
          local used = total - base
          local refuses = used > limit - cost
          if refuses and cost > limit then retry = READING_NEVER end
          -- A refund may have taken entries up to the newest time: the last one left is older then.
          local last = newest
          if value and (refuses or out or at == newest) then
            local tail = call('GETRANGE', key, PAIR_SIZE * stored - PAIR_SIZE, PAIR_SIZE * stored - 1)
            if type(tail) ~= 'string' or #tail < PAIR_SIZE then clean = false break end
            last = unpack(NUMBER, tail)
          end
          if refuses or out then
            local room = math.max(0, limit - used)
            local reset = used > 0 and last + length - at or 0
            readings[logs] = pack(READING, refuses and 1 or 0, retry, room, room, reset, used, 0, at)
          end
          if refuses then
            denied = true
          else
            lasts = at + length - now
            if stored == 0 or at > last then stored = stored + 1 end
            entries[logs] = { key, PAIR_SIZE * (stored - 1), pack(PAIR, at, total + cost) }
            entry = pack(LOG_ENTRY, id, at, base, total + cost, first, stored)
          end
        else -- ring of slices; the entries are pairs of stamp and running total
          local slice_length, length = x, y
          local base, total, stamp, current = 0, 0, 0, now - now % slice_length
          -- Where the slices stand that stay as they are.
          local first, finish = 1, 0
          if value then
            if size - from < RING_START_SIZE - 1 then clean = false break end
            local held, bytes, newest, first_stamp, first_total
            held, bytes, newest, base, first_stamp, first_total, first = unpack(RING_START, value, from)
            from, first = first + bytes - 2 * PAIR_SIZE, first - PAIR_SIZE
            if held ~= id or newest > ahead or newest > MAX or bytes < 2 * PAIR_SIZE or bytes % PAIR_SIZE ~= 0
              or from > size + 1 then
              clean = false
              break
            end
            if newest > now then at, current = newest, newest - newest % slice_length end
            stamp, total = unpack(PAIR, value, from - PAIR_SIZE)
            if stamp + length <= at then
              base, first = total, from
            else
              while first_stamp + length <= at do
                base, first = first_total, first + PAIR_SIZE
                first_stamp, first_total = unpack(PAIR, value, first)
              end
            end
            if stamp > newest or total < base or total > MAX - cost then clean = false break end
            finish = from - (stamp == current and PAIR_SIZE + 1 or 1)
          end
          if total - base > limit - cost then
            denied = true
          else
            lasts = current + length - now
            local slice = pack(PAIR, current, total + cost)
            -- What is left, when all has left, the current slice: no answer needs more than this.
            if finish > first then
              local beginning = pack(RING_HEAD, id, 3 * PAIR_SIZE, at, base)
              brief = beginning .. sub(value, finish - (PAIR_SIZE - 1), finish) .. slice
              -- Nothing to be made anew; the life stays as it is, or comes back if it was lost.
              if stamp == current and first == RING_FIRST_PAIR and from > size and not out and not turns
                and shortest == 0 then
                redis.call('SETRANGE', key, LISTED_HEAD_SIZE, sub(beginning, LISTED_HEAD_SIZE + 1))
                redis.call('SETRANGE', key, finish, slice)
                redis.call('PEXPIRE', key, ceil(lasts / 1000) + 1)
                return '+', brief
              end
            end
            local slices = value and sub(value, first, finish) or ''
            entry = pack(RING_HEAD, id, #slices + 2 * PAIR_SIZE, at, base) .. slices .. slice
          end
        end
        if lasts > life then life = lasts end
        if out then
          out[index] = entry
          if brief then
            briefs = briefs or {}
            briefs[index], brief = brief, nil
          end
        else
          states = entry
        end
        at_offset = at_offset + POLICY_SIZE
      end
      -- What tells of records and ids comes last, and stays for as long as it is of use.
      local rest = nil
      while clean and from + (TALLY_SIZE - 1) <= size do
        local kind, length, last_end = unpack(TALLY, value, from)
        local finish = from + LISTED_HEAD_SIZE + length - 1
        if kind ~= TALLY_HEAD and kind ~= INLINE_HEAD and kind ~= KNOWN_HEAD or finish > size then break end
        if last_end > now then rest, life = (rest or '') .. sub(value, from, finish), math.max(life, last_end - now) end
        from = finish + 1
      end
      if clean and from == size + 1 then
        if denied and not logs then
          sign, body = '-', value or ''
        elseif denied then
          sign = { tag .. clock[1] .. ' ' .. clock[2] .. '#', DENIED, now, 0, value }
          for index = 1, logs do sign[5 + index] = readings[index] end
        else
          if life > MAX then life = MAX end
          life = ceil(life / 1000) + 1
          for index = 1, logs or 0 do
            local entry = entries[index]
            if entry[2] == 0 then
              redis.call('SET', entry[1], entry[3], 'PX', life)
            else
              redis.call('SETRANGE', entry[1], entry[2], entry[3])
              redis.call('PEXPIRE', entry[1], life)
            end
          end
          if out then states = table.concat(out) end
          local stored = rest and states .. rest or states
          if turns then
            value, size, written_life = stored, #stored, life
          else
            redis.call('SET', key, stored, 'PX', life)
          end
          if briefs then
            for index, short in pairs(briefs) do out[index] = short end
            brief = table.concat(out)
          end
          sign, body = '+', brief or states
        end
      end
      if not turns then
        if sign then return sign, body end
      elseif sign then
        turns[time] = whole(sign, body)
      else
        if written_life then redis.call('SET', key, value, 'PX', written_life) end
        local general = shortest == 0 and GENERAL_LANE or GENERAL_LANE + INJECTED
        for rest = time, times do turns[rest] = whole(decide(general, 1)) end
        return { tag .. clock[1] .. ' ' .. clock[2] .. '#', turns }
      end
    end
    if turns then
      if written_life then redis.call('SET', key, value, 'PX', written_life) end
      return { tag .. clock[1] .. ' ' .. clock[2] .. '#', turns }
    end
  end
end
