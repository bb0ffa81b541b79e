-- Sluicegate: one decision over all policies of one subject, or of several limits together.
--
-- in    KEYS[1]   the packed states of the subject (docs/stored-format.md); of several limits
--                 together, one such key each
--       KEYS[…]   one key per log, in the order of the policies that have one
--       ARGV[1]   the program: what to do and the numbers of every policy (program.rs)
--       ARGV[2]   the time to judge by, in µs; absent: the server's clock
-- out   a string  allowed; the new packed states, from which the client reads the rest; of a ring
--                 they hold the last two slices alone
--       a number  denied by the only policy, a bucket: its deficit
--       an array  {verdict, now, notes, old packed states …, one reading per log …}; after an
--                 admitted reservation also the packed states as written, one per limit
--                 verdict 1 allowed, 0 denied, -1 overflow, -2 ask again: the boundaries of a
--                 calendar policy (an index from 0 follows) don't hold its time (follows too)
-- Whole numbers below 2^53 only. Nothing is written before everything is judged.

local MAX = 9007199254740991
local unpack = struct.unpack
local program = ARGV[1]
-- The head of the program, and as much of the first policy as a plain bucket needs.
local lane, back, head, unit, refill, capacity, cost = unpack('>BI7c6I7I7I7I7', program)
-- The shortest life of a key; under injected time, where the server's clock says nothing, an hour.
local now, ahead, shortest = nil, nil, 0
if ARGV[2] then
  now, ahead, shortest = tonumber(ARGV[2]), 2 * MAX, 3600000000
else
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
  ahead = now + back
end
local value = redis.pcall('GET', KEYS[1])

-- The shortest way, for what most limits are: a check of one plain bucket, alone in the value.
if lane == 2 and (not value or #value == 27) then
  local at, deficit = now, 0
  if value then
    local held, newest, then_deficit, then_unit = unpack('>c6I7I7I7', value)
    if held ~= head or then_unit ~= unit or newest > ahead or newest > MAX or then_deficit > MAX then
      at = nil
    else
      if newest > now then at = newest end
      deficit = then_deficit - (at - newest) * refill
      if deficit < 0 then deficit = 0 end
    end
  end
  if at then
    local ticks = cost * unit
    if deficit > capacity - ticks then return deficit end
    deficit = deficit + ticks
    value = struct.pack('>c6I7I7I7', head, at, deficit, unit)
    local life = at - now + deficit / refill
    if life < shortest then life = shortest elseif life > MAX then life = MAX end
    redis.call('SET', KEYS[1], value, 'PX', math.ceil(life / 1000) + 1)
    return value
  end
end

local pack, sub, ceil = struct.pack, string.sub, math.ceil
local size = value and #value or 0

-- The express lane: a plain check of small policies whose states are absent or stand in the
-- value just as the program lists them. Anything else falls through to the general part below.
if lane > 0 and (size > 0 or not value) then
  local count = (#program - 18) / 58
  local out, states = count > 1 and {} or nil, nil
  local briefs, brief = nil, nil
  local life, from, clean, denied, at_offset = shortest, 1, true, false, 9
  local logs, entries, readings
  -- The first policy's other numbers came with the head.
  local id, a, b, c = head, unit, refill, capacity
  local kind, flags, _, fresh, limit = unpack('>BBBI7I7', program, 43)
  for index = 1, count do
    if index > 1 then
      id, a, b, c, cost, kind, flags, _, fresh, limit = unpack('>c6I7I7I7I7BBBI7I7', program, at_offset)
    end
    local at, entry = now, nil
    local lasts = 0
    if kind == 1 then -- bucket: a unit, b refill, c capacity, e fresh deficit, g shortest life
      local deficit, ticks, room = 0, cost * a, c
      if flags == 0 then
        room = c - ticks
      else
        deficit, lasts = fresh, unpack('>I7', program, at_offset + 51)
      end
      if value then
        if size - from < 26 then clean = false break end
        local held, newest, unit
        held, newest, deficit, unit, from = unpack('>c6I7I7I7', value, from)
        if held ~= id or unit ~= a or newest > ahead or newest > MAX or deficit > MAX then
          clean = false
          break
        end
        if newest > now then at = newest end
        deficit = deficit - (at - newest) * b
        if deficit < 0 then deficit = 0 end
      end
      if deficit > room then
        denied = true
      else
        deficit = deficit + ticks
        local empties = at - now + deficit / b
        if empties > lasts then lasts = empties end
        entry = pack('>c6I7I7I7', id, at, deficit, a)
      end
    elseif kind == 3 then -- window: a anchor (0 first admitted, 1 aligned), b length
      local start, used = now, 0
      if a == 1 then start = now - now % b end
      if value then
        if size - from < 26 then clean = false break end
        local held, newest, then_start, then_used
        held, newest, then_start, then_used, from = unpack('>c6I7I7I7', value, from)
        if held ~= id or newest > ahead or newest > MAX or then_start > newest or then_used > MAX then
          clean = false
          break
        end
        if newest > now then at = newest end
        start = at
        if a == 1 then
          start = at - at % b
          if then_start == start then used = then_used end
        elseif at < then_start + b then
          start, used = then_start, then_used
        end
      end
      if used > limit - cost then
        denied = true
      else
        lasts = start + b - now
        entry = pack('>c6I7I7I7', id, at, start, used + cost)
      end
    elseif kind == 4 then -- counter: a length, b step, c steps
      local previous, current, start = 0, 0, now - now % a
      if value then
        if size - from < 33 then clean = false break end
        local held, newest, then_start, x, y
        held, newest, then_start, x, y, from = unpack('>c6I7I7I7I7', value, from)
        if held ~= id or newest > ahead or newest > MAX or then_start > newest or x > MAX or y > MAX then
          clean = false
          break
        end
        if newest > now then at = newest end
        start = at - at % a
        if start == then_start then
          previous, current = x, y
        elseif start - then_start == a then
          previous = y
        end
      end
      local room = limit - cost - current
      if room < 0 or previous > 0 and c - math.floor((at - start) / b) > math.floor(room * c / previous) then
        denied = true
      else
        lasts = start + 2 * a - now
        entry = pack('>c6I7I7I7I7', id, at, start, previous, current + cost)
      end
    elseif kind == 5 then -- exact log of one strategy: b length; entries as in a ring, in a key of their own
      logs, entries, readings = (logs or 0) + 1, entries or {}, readings or {}
      local key, base, total, first, stored, retry, newest = KEYS[1 + logs], 0, 0, 0, 0, 0, 0
      if value then
        if size - from < 40 then clean = false break end
        local held
        held, newest, base, total, first, stored, from = unpack('>c6I7I7I7I7I7', value, from)
        -- At most 65,536 entries count, and no more than that have left before they are dropped.
        if held ~= id or newest > ahead or newest > MAX or total > MAX - cost or first >= stored or first > 64 and 2 * first > stored or stored > 131200 then
          clean = false
          break
        end
        if newest > now then at = newest end
        -- What has left is among the oldest, most often one or two.
        local block, place = redis.pcall('GETRANGE', key, 14 * first, 14 * first + 111), 1
        local stamp, running
        if type(block) ~= 'string' then clean = false break end
        repeat
          if place + 13 > #block then clean = false break end
          if running then base, first = running, first + 1 end
          stamp, running, place = unpack('>I7I7', block, place)
        until stamp + b > at
        if not clean then break end
        local excess = total - base + cost - limit
        while excess > 0 and running - base < excess do
          if place + 13 > #block then clean = false break end
          stamp, running, place = unpack('>I7I7', block, place)
        end
        if not clean then break end
        if excess > 0 then retry = stamp + b - at end
      elseif cost > limit then
        clean = false
        break
      end
      local used = total - base
      local refuses = used > limit - cost
      if refuses and cost > limit then retry = 36028797018963968 end
      -- A refund may have taken entries up to the newest time: the last one left is older then.
      local last = newest
      if value and (refuses or out or at == newest) then
        local tail = redis.pcall('GETRANGE', key, 14 * stored - 14, 14 * stored - 1)
        if type(tail) ~= 'string' or #tail < 14 then clean = false break end
        last = unpack('>I7', tail)
      end
      if refuses or out then
        local room = math.max(0, limit - used)
        readings[logs] = pack('>I4I7I7I7I7I7I7', refuses and 1 or 0, retry, room, room, used > 0 and last + b - at or 0, used, 0)
      end
      if refuses then
        denied = true
      else
        lasts = at + b - now
        if stored == 0 or at > last then stored = stored + 1 end
        entries[logs] = { key, 14 * (stored - 1), pack('>I7I7', at, total + cost) }
        entry = pack('>c6I7I7I7I7I7', id, at, base, total + cost, first, stored)
      end
    else -- ring of slices: a slice, b length; entries are pairs of stamp and running total
      local base, total, stamp, current = 0, 0, 0, now - now % a
      -- Where the slices stand that stay as they are.
      local first, finish = 1, 0
      if value then
        if size - from < 35 then clean = false break end
        local held, length, newest, first_stamp, first_total
        held, length, newest, base, first_stamp, first_total, first = unpack('>c6I2I7I7I7I7', value, from)
        from, first = first + length - 28, first - 14
        if held ~= id or newest > ahead or newest > MAX or length < 28 or length % 14 ~= 0 or from > size + 1 then
          clean = false
          break
        end
        if newest > now then at, current = newest, newest - newest % a end
        stamp, total = unpack('>I7I7', value, from - 14)
        if stamp + b <= at then
          base, first = total, from
        else
          while first_stamp + b <= at do
            base, first = first_total, first + 14
            first_stamp, first_total = unpack('>I7I7', value, first)
          end
        end
        if stamp > newest or total < base or total > MAX - cost then clean = false break end
        finish = from - (stamp == current and 15 or 1)
      end
      if total - base > limit - cost then
        denied = true
      else
        lasts = current + b - now
        local times, slice = pack('>I7I7', at, base), pack('>I7I7', current, total + cost)
        -- What is left, when all has left, the current slice: no answer needs more than this.
        if finish > first then
          brief = id .. '\000\042' .. times .. sub(value, finish - 13, finish) .. slice
          -- Nothing to be made anew, not even the time to live, which ends with the slice.
          if stamp == current and first == 23 and from > size and not out and shortest == 0 then
            redis.call('SETRANGE', KEYS[1], 8, times)
            redis.call('SETRANGE', KEYS[1], finish, slice)
            return brief
          end
        end
        local slices = value and sub(value, first, finish) or ''
        entry = id .. pack('>I2', #slices + 28) .. times .. slices .. slice
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
    at_offset = at_offset + 58
  end
  if clean and from == size + 1 then
    if denied then
      local reply = { 0, now, 0, value }
      for index = 1, logs or 0 do reply[4 + index] = readings[index] end
      return reply
    end
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
    redis.call('SET', KEYS[1], states, 'PX', life)
    if briefs then
      for index, short in pairs(briefs) do out[index] = short end
      return table.concat(out)
    end
    return brief or states
  end
end

local floor, max, min = math.floor, math.max, math.min
local operation, parts, count, within = unpack('>BBBI7', program, #program - 9)
local offset = 9
-- What each kernel module below registers, by the kind of its entries.
local kernels = {}
