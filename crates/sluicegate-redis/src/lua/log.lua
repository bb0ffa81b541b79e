-- The log kernel: exact logs, several tiers over one, and rings of slices. The Lua port of kernel/log.rs.
--
-- Entries are pairs of stamp and running total. A ring of few slices has them in the value (p.inline), other
-- logs in a separate key (p.key). A decision changes at most one entry, the last one, which is kept apart
-- (p.tail…) until all policies are evaluated.

function LOG_TWIN()
  local log = {}

  -- The slice that stamps are rounded down to (1 for exact logs), and the longest window. Each tier is
  -- {limit, window}; p.limit is the smallest limit.
  function log.numbers(p, slice, longest)
    p.slice, p.longest = slice, longest
    p.tiers = p.pairs or { { p.limit, longest } }
  end

  function log.read(p, value, position)
    if p.inline then
      local _, length, newest, base = unpack(RING_HEAD, value, position)
      if newest > MAX or base > MAX or length < PAIR_SIZE or length % PAIR_SIZE ~= 0 then return false end
      p.newest, p.base, p.first, p.count = newest, base, 0, length / PAIR_SIZE - 1
      p.body = position + RING_HEAD_SIZE
      local stamp, total = -1, base
      for index = 0, p.count - 1 do
        local then_stamp, then_total = unpack(PAIR, value, p.body + PAIR_SIZE * index)
        if then_stamp <= stamp or then_total <= total or then_stamp > newest or then_total > MAX then return false end
        stamp, total = then_stamp, then_total
      end
      p.total = total
      return true
    end
    local _, newest, base, total, first, entries = unpack(LOG_ENTRY, value, position)
    if newest > MAX or base > total or total > MAX or first > entries or entries > MAX then return false end
    if (first == entries) ~= (base == total) then return false end
    p.newest, p.base, p.total, p.first, p.count = newest, base, total, first, entries
    -- The entries were evicted without the head, or are of an earlier log: they can't be used.
    local bytes = call('STRLEN', p.key)
    -- A key of another type is foreign. Raise any other error, which must not pass for a lost log.
    if type(bytes) == 'table' and not string.find(bytes.err, 'WRONGTYPE', 1, true) then redis.call('STRLEN', p.key) end
    if bytes == 0 and newest + p.longest <= now then
      -- The head, which is next to other policies' states, outlives its entries.
      p.base, p.total, p.first, p.count = 0, 0, 0, 0
      return true
    end
    if type(bytes) ~= 'number' or bytes < PAIR_SIZE * entries then return false end
    if entries == first then return true end
    -- A short log is read completely; a long one where a search needs it.
    local from = entries - first <= 128 and first or entries - 1
    p.block, p.block_first = redis.call('GETRANGE', p.key, PAIR_SIZE * from, PAIR_SIZE * entries - 1), from
    -- Entries that don't add up to the total would send a search past their end.
    local _, last = unpack(PAIR, p.block, #p.block - (PAIR_SIZE - 1))
    return last == total
  end

  -- Returns the stamp and the running total of an entry.
  local function entry(p, index)
    if index == p.tail then return p.tail_stamp, p.tail_total end
    if p.patch and index >= p.patch_first then
      return unpack(PAIR, p.patch, PAIR_SIZE * (index - p.patch_first) + 1)
    end
    if p.inline and not p.rewritten then return unpack(PAIR, p.value, p.body + PAIR_SIZE * index) end
    local place = PAIR_SIZE * (index - (p.block_first or 0))
    if not p.block or place < 0 or place >= #p.block then
      local block = redis.call('GETRANGE', p.key, PAIR_SIZE * index, PAIR_SIZE * (index + 16) - 1)
      p.block, p.block_first, place = block, index, 0
    end
    return unpack(PAIR, p.block, place + 1)
  end

  local function total_before(p, index)
    if index == p.first then return p.base end
    local _, total = entry(p, index - 1)
    return total
  end

  -- Returns the first entry that counts in a window, at the evaluation time or another.
  local function first_within(p, length, at)
    at = at or p.at
    local low, high = p.first, p.count
    if low == high or (entry(p, low)) + length > at then return low end
    if (entry(p, high - 1)) + length <= at then return high end
    while low < high do
      local middle = floor((low + high) / 2)
      if (entry(p, middle)) + length <= at then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns the first entry stamped at an instant or after it.
  local function first_stamped(p, at)
    local low, high = p.first, p.count
    while low < high do
      local middle = floor((low + high) / 2)
      if (entry(p, middle)) < at then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns the first entry whose running total is at least (or, if `strictly`, above) a number.
  local function first_total(p, number, strictly)
    local low, high = p.first, p.count
    while low < high do
      local middle = floor((low + high) / 2)
      local _, total = entry(p, middle)
      if total < number or strictly and total == number then low = middle + 1 else high = middle end
    end
    return low
  end

  function log.stand(p, now)
    if not p.found then
      p.newest, p.base, p.total, p.first, p.count = now, 0, 0, 0, 0
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
      -- Entries ahead of now count as made now.
      local first = first_stamped(p, now + 1)
      if first < p.count then
        local stamp = now - now % p.slice
        local joins = first > p.first and (entry(p, first - 1)) == stamp
        p.count = joins and first or first + 1
        p.tail, p.tail_stamp, p.tail_total = p.count - 1, stamp, p.total
      end
    end
    p.at = max(now, p.newest)
    return true
  end

  local function used(p, length)
    return p.total - total_before(p, first_within(p, length))
  end

  -- Returns the wait after which a cost passes: 0 if it passes now, false for never.
  local function retry(p, cost)
    local wait = 0
    for _, tier in ipairs(p.tiers) do
      local room = tier[1] - cost
      if room < 0 then return false end
      local before = total_before(p, first_within(p, tier[2]))
      local excess = p.total - before - room
      if excess > 0 then
        local stamp = entry(p, first_total(p, before + excess))
        wait = max(wait, stamp + tier[2] - p.at)
      end
    end
    return wait
  end

  function log.ask(p, cost)
    p.retry, p.violated = retry(p, cost), 0
    if p.retry == 0 then return 0 end
    local bit = 1
    for _, tier in ipairs(p.tiers) do
      if used(p, tier[2]) > tier[1] - cost then p.violated = p.violated + bit end
      bit = bit * 2
    end
    return false
  end

  -- Drops the entries that have left the longest window.
  local function forget(p, at)
    local first = first_within(p, p.longest, at)
    p.base, p.first = total_before(p, first), first
  end

  -- Returns the entries that count, as one string.
  local function live(p)
    local last, block = p.tail or p.count, ''
    if last > p.first then
      if p.rewritten then
        block = string.sub(p.block, PAIR_SIZE * p.first + 1, PAIR_SIZE * last)
      elseif p.inline then
        block = string.sub(p.value, p.body + PAIR_SIZE * p.first, p.body + PAIR_SIZE * last - 1)
      else
        block = redis.call('GETRANGE', p.key, PAIR_SIZE * p.first, PAIR_SIZE * last - 1)
      end
    end
    if p.tail and p.tail >= p.first then block = block .. pack(PAIR, p.tail_stamp, p.tail_total) end
    return block
  end

  log.live = live

  -- Writes the entries again: those from `from` on, then those from `gone` on, with their running totals
  -- lowered by `less`.
  local function rewrite(p, from, to, gone, less)
    local parts = {}
    for index = from, p.count - 1 do
      local stamp, total = entry(p, index)
      if index < to then
        parts[#parts + 1] = pack(PAIR, stamp, total)
      elseif index >= gone then
        parts[#parts + 1] = pack(PAIR, stamp, total - less)
      end
    end
    p.block, p.block_first, p.rewritten, p.tail, p.patch = table.concat(parts), 0, true, nil, nil
    p.total, p.count, p.first = p.total - less, #parts, 0
  end

  function log.admit(p, cost)
    forget(p)
    if p.total > MAX - cost then
      rewrite(p, p.first, p.first, p.first, p.base)
      p.base = 0
    end
    if p.total > MAX - cost then return false end
    local stamp = p.at - p.at % p.slice
    local joins = p.count > p.first and (entry(p, p.count - 1)) == stamp
    if not joins then
      if p.count - p.first == LOG_ENTRIES then return false end
      p.count = p.count + 1
    end
    p.total = p.total + cost
    p.tail, p.tail_stamp, p.tail_total = p.count - 1, stamp, p.total
    p.newest, p.changed = p.at, true
    return true
  end

  function log.charge_denied(p, cost)
    local units = min(cost, p.limit)
    if units == 0 then
      p.changed = p.found
      return true
    end
    if not log.admit(p, units) then return false end
    local largest = 0
    for _, tier in ipairs(p.tiers) do largest = max(largest, tier[1]) end
    local first = first_total(p, p.total - largest, true)
    p.base, p.first = total_before(p, first), first
    return true
  end

  function log.refund(p, units)
    if p.count == p.first then return end
    -- No request is evaluated before the newest time. Entries that have expired since have nothing to give
    -- back, but count again if time steps back.
    forget(p, p.newest)
    local first = first_within(p, p.longest)
    local before = total_before(p, first)
    local given = min(units, p.total - before)
    local gone = max(first, first_total(p, before + given, true))
    if first == p.first then
      p.base, p.first = p.base + given, gone
    else
      rewrite(p, p.first, first, gone, given)
    end
    p.given, p.changed = given, true
  end

  -- Gives units back from the entry they were taken in, while it counts. Only that entry and those after it
  -- are read and written.
  function log.give_back(p, units, taken_at)
    local stamp = taken_at - taken_at % p.slice
    if taken_at > p.at or stamp + p.longest <= p.at then return end
    local index = first_stamped(p, stamp)
    if index == p.count or (entry(p, index)) ~= stamp then return end
    local before, _, total = total_before(p, index), entry(p, index)
    local given = min(units, total - before)
    local gone = before + given == total and index + 1 or index
    p.given, p.changed = given, true
    if p.inline then return rewrite(p, p.first, index, gone, given) end
    local parts = {}
    for each = gone, p.count - 1 do
      local then_stamp, then_total = entry(p, each)
      parts[#parts + 1] = pack(PAIR, then_stamp, then_total - given)
    end
    local patch, from = table.concat(parts), index
    if p.patch and p.patch_first < index then
      -- Earlier returns stay.
      patch, from = string.sub(p.patch, 1, PAIR_SIZE * (index - p.patch_first)) .. patch, p.patch_first
    end
    p.patch, p.patch_first, p.tail = patch, from, nil
    p.total, p.count = p.total - given, index + #parts
  end

  function log.remaining(p)
    local least = MAX
    for _, tier in ipairs(p.tiers) do
      least = min(least, max(0, tier[1] - used(p, tier[2])))
    end
    return least
  end

  function log.lasts(p)
    if p.count == p.first then return 0 end
    return max(0, (entry(p, p.count - 1)) + p.longest - p.at)
  end

  function log.write(p)
    if p.inline then
      local body = live(p)
      return pack(RING_HEAD, p.head, #body + PAIR_SIZE, p.newest, p.base) .. body
    end
    return pack(LOG_ENTRY, p.head, p.newest, p.base, p.total, p.first, p.count)
  end

  -- Writes the entries to their separate key.
  function log.save(p, life)
    if p.inline then return end
    -- The head has the newest time, even if that entry was given back. Until it expires, the other entries
    -- are needed.
    local lasts, least = p.newest - p.newest % p.slice + p.longest - now, nil
    LIFE(lasts, least)
    life = max(life, least)
    if p.patch then
      redis.call('SETRANGE', p.key, PAIR_SIZE * p.patch_first, p.patch)
      p.patch, p.block = nil, nil
    end
    if p.rewritten or not p.found or p.first == p.count or p.first > LOG_SLACK and 2 * p.first > p.count then
      -- More entries have expired than remain: keep only the remaining ones.
      local block = live(p)
      p.first, p.count, p.tail = 0, p.count - p.first, nil
      if block == '' then
        redis.call('DEL', p.key)
      else
        redis.call('SET', p.key, block, 'PX', life)
      end
      p.block, p.block_first, p.rewritten = block, 0, true
      return
    end
    if p.tail then
      redis.call('SETRANGE', p.key, PAIR_SIZE * p.tail, pack(PAIR, p.tail_stamp, p.tail_total))
    end
    redis.call('PEXPIRE', p.key, life)
  end

  -- Returns what the client can't compute. That is the denying tiers, the wait after which the cost passes (0
  -- if it does now), and the remaining units before and after. Then follow the reset, the total, the current
  -- slice and the evaluation time; after a refund also the units given back.
  function log.reading(p, before)
    local current = 0
    local last = p.count - 1
    if p.slice > 1 and p.count > p.first and (entry(p, last)) == p.at - p.at % p.slice then
      current = p.total - total_before(p, last)
    end
    local wait = p.retry or 0
    if p.retry == false then wait = READING_NEVER end
    local reading =
      pack(READING, p.violated or 0, wait, before, log.remaining(p), log.lasts(p), used(p, p.longest), current, p.at)
    return p.given and reading .. pack(NUMBER, p.given) or reading
  end

  return log
end
