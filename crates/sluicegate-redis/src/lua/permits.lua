-- Units in flight: what is held of a policy and has not ended. Twin of kernel/permits.rs. The records say
-- until when; the value has how many units all of them are, so that nobody has to add them up, and for
-- permit_lane.lua no record ends before a time, and when the last one does (NO_RECORD: there is none); 0 where
-- nobody has looked since.

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

  -- A value that was lost is no reason to forget what is in flight.
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
    -- Those who come first may take what ends: by then they have all taken it, or gone.
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

  -- What has ended goes where anything is left that is in flight.
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

  -- Nobody holds anything for longer.
  function permits.lasts(p)
    return p.length
  end

  function permits.write(p)
    return pack(PERMITS_ENTRY, p.head, now, p.all, 0, 0)
  end

  -- As that of a log.
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
