-- Units in flight: a policy's held units that have not ended. The Lua port of kernel/permits.rs. The records
-- have their ends. The value has the sum of their units, which saves adding them up. For permit_lane.lua it
-- also has a time before which no record ends, and the end of the last one. That is NO_RECORD if there is
-- none, and 0 if unknown.

function PERMITS_TWIN()
  local permits = { counts_records = true }

  function permits.numbers(p, length, longest, priorities)
    p.length, p.queue, p.priorities = length, longest, priorities
  end

  function permits.read(p, value, position)
    local _, newest, all = unpack(PERMITS_ENTRY, value, position)
    if newest > MAX or all > MAX then return false end
    p.all = all
    return true
  end

  -- If the value was lost, the units in flight still count.
  function permits.stand(p, now)
    if not p.found then
      p.all = hold.all_units(p)
    elseif hold.is_over(p.subject.part) then
      p.all = 0
    end
    p.at, p.in_flight = now, max(0, p.all - hold.ended_units(p))
    p.queued = p.queue > 0 and not p.shadow
    return true
  end

  function permits.ask(p, cost)
    if cost > p.limit then
      p.retry = false
      return false
    end
    local excess = p.in_flight + cost - p.limit
    local waiting = p.queued and queue.waiting(p)
    if excess + (waiting and waiting.ahead or 0) <= 0 then return 0 end
    -- Earlier tickets may take the units that end first. By then they have all taken them, or left.
    if waiting and waiting.ahead > 0 then
      p.retry = max(1, max(permits.last_end(p), waiting.others_end) - now)
      return false
    end
    p.retry = max(1, hold.end_of(p, excess) - now)
    return false
  end

  function permits.last_end(p)
    return p.in_flight > 0 and hold.last_end(p) or 0
  end

  -- Counts out ended units, which a call removes when it leaves a record in flight.
  function permits.count_out(p)
    local units = p.is_counted_out and 0 or hold.removable_units(p)
    if units > 0 then p.all, p.changed = max(0, p.all - units), true end
    p.is_counted_out = true
  end

  function permits.admit(p, cost)
    if p.in_flight > MAX - cost then return false end
    permits.count_out(p)
    p.in_flight, p.all, p.changed = p.in_flight + cost, p.all + cost, true
    return true
  end

  function permits.charge_denied()
    return true
  end

  function permits.refund()
  end

  function permits.give_back(p, units)
    p.in_flight, p.all, p.given, p.changed = max(0, p.in_flight - units), max(0, p.all - units), units, true
  end

  function permits.remaining(p)
    local waiting = p.queued and queue.waiting(p)
    return max(0, p.limit - p.in_flight - (waiting and waiting.others + waiting.own or 0))
  end

  -- No hold is longer.
  function permits.lasts(p)
    return p.length
  end

  function permits.write(p)
    return pack(PERMITS_ENTRY, p.head, now, p.all, 0, 0)
  end

  -- Returns a reading in the form of a log's.
  function permits.reading(p, before)
    local wait = p.retry or 0
    if p.retry == false then wait = READING_NEVER end
    local last = permits.last_end(p)
    if p.queued then
      local waiting = queue.waiting(p)
      last = max(last, waiting.others_end, waiting.own_end)
    end
    local reset = max(0, last - now)
    return pack(READING, 0, wait, before, permits.remaining(p), reset, 0, 0, now)
  end

  return permits
end
