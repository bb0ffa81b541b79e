-- The express path: plain checks of small policies whose states are absent, or are in the value in the
-- program's order. Anything else falls through, with nothing written, to the general part.
--
-- reads   program, lane, times, value, all_keys, first, key, now, ahead, shortest, head, unit, refill, capacity, cost,
--         tag, clock, decide
-- makes   size: number of bytes of the value
-- returns the same as `decide`, if it decides

function EXPRESS_LANE()
  local size = value and #value or 0

  -- Makes one of several replies to equal checks.
  local whole = times > 1 and function(sign, body)
    if type(sign) == 'table' then return sign end
    return tag .. clock[1] .. ' ' .. clock[2] .. sign .. body
  end

  if lane ~= GENERAL_LANE and (size > 0 or not value) then
    -- An id takes fewer bytes than a policy.
    local count = math.floor((#program - PROGRAM_FRAME) / POLICY_SIZE)
    -- For equal checks, the value is read once and written once, with the last life.
    local turns, written_life = times > 1 and {}, nil
    for time = 1, times do
      local sign, body = nil, nil
      local out, states = count > 1 and {} or nil, nil
      local briefs, brief = nil, nil
      local life, from, clean, denied, at_offset = shortest, 1, true, false, FIRST_POLICY
      local logs, entries, readings
      -- The first policy's numbers came with the head: x, y and z, which each kernel names differently, and
      -- the cost.
      local id, x, y, z, cost = head, unit, refill, capacity, cost
      local kind, flags, limit = unpack(POLICY_TRAITS, program, FIRST_TRAITS)
      for index = 1, count do
        if index > 1 then
          id, x, y, z, cost, kind, flags, limit = unpack(POLICY, program, at_offset)
        end
        -- The evaluation time; the entry to write if all policies admit, and the time for which it is useful.
        local at, entry, lasts = now, nil, 0
        if kind == BUCKET_KIND then
          EXPRESS_BUCKET()
        elseif kind == WINDOW_KIND then
          EXPRESS_WINDOW()
        elseif kind == COUNTER_KIND then
          EXPRESS_COUNTER()
        elseif kind == LOG_KIND then
          EXPRESS_LOG()
        else
          EXPRESS_RING()
        end
        if not clean then break end
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
      EXPRESS_WRITE()
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

-- Each of these functions decides a policy of one kind.
--
-- reads   id, x, y, z, cost, flags, limit: of the policy; value, size, now, ahead
-- sets    clean: whether the state is absent or as expected; from: start of the next one; denied; at, entry, lasts

function EXPRESS_BUCKET()
  local unit, refill, capacity = x, y, z
  local deficit, ticks, room = 0, cost * unit, capacity
  if flags == 0 then
    room = capacity - ticks
  else -- smooth, which passes once the debt is paid: fresh deficit and shortest life
    deficit, lasts = unpack(PAIR, program, at_offset + POLICY_BRIEF)
  end
  if value then
    local newest
    READ_BUCKET(value, from, id, unit, ahead, clean, newest, deficit, from)
    if clean then
      if newest > now then at = newest end
      DRAIN(deficit, newest, at, refill)
    end
  end
  if deficit > room then
    denied = true
  elseif clean then
    deficit = deficit + ticks
    local empties = at - now + deficit / refill
    if empties > lasts then lasts = empties end
    entry = pack(BUCKET_ENTRY, id, at, deficit, unit)
  end
end

-- A window from the first admitted request, or an aligned one. If it has flags, it is the only policy and counts denied
-- requests too: it then has an entry although it denies.
function EXPRESS_WINDOW()
  local anchor, length, start, used = x, y, nil, 0
  local then_start, then_used
  if value then
    clean = size - from >= WINDOW_SIZE - 1
    if clean then
      local held, newest
      held, newest, then_start, then_used, from = unpack(WINDOW_ENTRY, value, from)
      clean = held == id and newest <= ahead and newest <= MAX and then_start <= newest and then_used <= MAX
      if newest > now then at = newest end
    end
  end
  WINDOW_START(at, anchor, length, then_start, start)
  if start == then_start then used = then_used end
  denied = denied or used > limit - cost
  if clean and (not denied or flags > 0) then
    lasts = start + length - now
    entry = pack(WINDOW_ENTRY, id, at, start, math.min(used + cost, MAX))
  end
end

-- A cell has a length in µs and in steps.
function EXPRESS_COUNTER()
  local length, step, steps = x, y, z
  local previous, current, start, passes = 0, 0, 0, nil
  if value then
    clean = size - from >= COUNTER_SIZE - 1
    if clean then
      local held, newest
      held, newest, start, previous, current, from = unpack(COUNTER_ENTRY, value, from)
      clean = held == id and newest <= ahead and newest <= MAX and start <= newest and previous <= MAX
        and current <= MAX
      if newest > now then at = newest end
    end
  end
  STAND_CELLS(at, length, start, previous, current)
  local left = steps - math.floor((at - start) / step)
  CELLS_PASS(cost, limit, previous, current, left, steps, passes)
  if not passes then
    denied = true
  elseif clean then
    lasts = start + 2 * length - now
    entry = pack(COUNTER_ENTRY, id, at, start, previous, current + cost)
  end
end

-- An exact log of one tier, whose entries are in a separate key.
function EXPRESS_LOG()
  local length = y
  logs, entries, readings = (logs or 0) + 1, entries or {}, readings or {}
  local key, base, total, first, stored, retry, newest = all_keys[first + logs], 0, 0, 0, 0, 0, 0
  if value then
    READ_EXPRESS_LOG()
  else
    clean = cost <= limit
  end
  local used = total - base
  local refuses = used > limit - cost
  if refuses and cost > limit then retry = READING_NEVER end
  -- A refund may have removed entries up to the newest time: then the last remaining one is older.
  local last = newest
  if clean and value and (refuses or out or at == newest) then
    local tail = call('GETRANGE', key, PAIR_SIZE * stored - PAIR_SIZE, PAIR_SIZE * stored - 1)
    clean = type(tail) == 'string' and #tail >= PAIR_SIZE
    if clean then last = unpack(NUMBER, tail) end
  end
  if clean and (refuses or out) then
    local room = math.max(0, limit - used)
    local reset = used > 0 and last + length - at or 0
    readings[logs] = pack(READING, refuses and 1 or 0, retry, room, room, reset, used, 0, at)
  end
  if refuses then
    denied = true
  elseif clean then
    lasts = at + length - now
    if stored == 0 or at > last then stored = stored + 1 end
    entries[logs] = { key, PAIR_SIZE * (stored - 1), pack(PAIR, at, total + cost) }
    entry = pack(LOG_ENTRY, id, at, base, total + cost, first, stored)
  end
end

-- Reads a log, without expired entries.
--
-- reads   what EXPRESS_LOG declares
-- sets    clean, from, at, newest, base, total, first, stored; retry: the wait after which the cost passes
function READ_EXPRESS_LOG()
  clean = size - from >= LOG_SIZE - 1
  if clean then
    local held
    held, newest, base, total, first, stored, from = unpack(LOG_ENTRY, value, from)
    -- If more entries have expired than LOG_SLACK and than remain, the general part drops them.
    clean = held == id and newest <= ahead and newest <= MAX and total <= MAX - cost and first < stored
      and (first <= LOG_SLACK or 2 * first <= stored) and stored <= 2 * (LOG_ENTRIES + LOG_SLACK)
  end
  if clean then
    if newest > now then at = newest end
    -- Expired entries are among the oldest, mostly one or two.
    local block, place = call('GETRANGE', key, PAIR_SIZE * first, PAIR_SIZE * first + (8 * PAIR_SIZE - 1)), 1
    local stamp, running = at - length, nil
    clean = type(block) == 'string'
    while clean and stamp + length <= at do
      clean = place + (PAIR_SIZE - 1) <= #block
      if clean then
        if running then base, first = running, first + 1 end
        stamp, running, place = unpack(PAIR, block, place)
      end
    end
    local excess = total - base + cost - limit
    while clean and excess > 0 and running - base < excess do
      clean = place + (PAIR_SIZE - 1) <= #block
      if clean then stamp, running, place = unpack(PAIR, block, place) end
    end
    if clean and excess > 0 then retry = stamp + length - at end
  end
end

-- A ring of slices; the entries are pairs of stamp and running total.
function EXPRESS_RING()
  local slice_length, length = x, y
  local base, total, stamp, current = 0, 0, 0, now - now % slice_length
  -- Positions of the slices that stay unchanged.
  local first, finish = 1, 0
  if value then
    READ_EXPRESS_RING()
  end
  if total - base > limit - cost then
    denied = true
  elseif clean then
    lasts = current + length - now
    local slice = pack(PAIR, current, total + cost)
    -- The last remaining slice, if there is one, and the current slice: answers need no more.
    if finish > first then
      local beginning = pack(RING_HEAD, id, 3 * PAIR_SIZE, at, base)
      brief = beginning .. sub(value, finish - (PAIR_SIZE - 1), finish) .. slice
      -- If no slice is new, write in place. The TTL stays unchanged, or is restored if it was lost.
      if stamp == current and first == RING_FIRST_PAIR and from > size and not out and not turns
        and shortest == 0 then
        local lives
        LIFE(lasts, lives)
        redis.call('SETRANGE', key, LISTED_HEAD_SIZE, sub(beginning, LISTED_HEAD_SIZE + 1))
        redis.call('SETRANGE', key, finish, slice)
        redis.call('PEXPIRE', key, lives)
        return '+', brief
      end
    end
    local slices = value and sub(value, first, finish) or ''
    entry = pack(RING_HEAD, id, #slices + 2 * PAIR_SIZE, at, base) .. slices .. slice
  end
end

-- Reads a ring, without expired slices.
--
-- reads   what EXPRESS_RING declares
-- sets    clean, from, at, base, total, stamp, current, first, finish
function READ_EXPRESS_RING()
  clean = size - from >= RING_START_SIZE - 1
  if clean then
    local held, bytes, newest, first_stamp, first_total
    held, bytes, newest, base, first_stamp, first_total, first = unpack(RING_START, value, from)
    from, first = first + bytes - 2 * PAIR_SIZE, first - PAIR_SIZE
    clean = held == id and newest <= ahead and newest <= MAX and bytes >= 2 * PAIR_SIZE and bytes % PAIR_SIZE == 0
      and from <= size + 1
    if clean then
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
      clean = stamp <= newest and total >= base and total <= MAX - cost
      finish = from - (stamp == current and PAIR_SIZE + 1 or 1)
    end
  end
end

-- Writes the states if all policies admit, and makes the reply.
--
-- reads   what EXPRESS_LANE declares
-- sets    sign and body, if all was as expected; value, size, written_life for equal checks
function EXPRESS_WRITE()
  -- The entries of records and ids come last, and stay as long as they are useful.
  local rest = nil
  while clean and from + (TALLY_SIZE - 1) <= size do
    local kind, length, last_end = unpack(TALLY, value, from)
    local finish = from + LISTED_HEAD_SIZE + length - 1
    if kind ~= TALLY_HEAD and kind ~= INLINE_HEAD and kind ~= KNOWN_HEAD or finish > size then break end
    if last_end > now then rest, life = (rest or '') .. sub(value, from, finish), math.max(life, last_end - now) end
    from = finish + 1
  end
  clean = clean and from == size + 1
  if clean and denied and logs then
    sign = { tag .. clock[1] .. ' ' .. clock[2] .. '#', DENIED, now, 0, value }
    for index = 1, logs do sign[5 + index] = readings[index] end
  elseif clean and denied and not states then
    sign, body = '-', value or ''
  elseif clean then
    local lives, before = nil, value or ''
    LIFE(life, lives)
    for index = 1, logs or 0 do
      local entry = entries[index]
      if entry[2] == 0 then
        redis.call('SET', entry[1], entry[3], 'PX', lives)
      else
        redis.call('SETRANGE', entry[1], entry[2], entry[3])
        redis.call('PEXPIRE', entry[1], lives)
      end
    end
    if out then states = table.concat(out) end
    local stored = rest and states .. rest or states
    if turns then
      value, size, written_life = stored, #stored, lives
    else
      redis.call('SET', key, stored, 'PX', lives)
    end
    if briefs then
      for index, short in pairs(briefs) do out[index] = short end
      brief = table.concat(out)
    end
    if denied then
      sign, body = '-', before
    else
      sign, body = '+', brief or states
    end
  end
end
