-- Units in flight: what is held of a policy and has not ended. Twin of kernel/permits.rs. The records say
-- until when; the value has how many units all of them are, so that nobody has to add them up.

makers[PERMITS_KIND] = function()

local permits = { counts_records = true }

function permits.numbers(p, length)
  p.length = length
end

function permits.read(p, position)
  local _, newest, all = unpack(PERMITS_ENTRY, value, position)
  if newest > MAX or all > MAX then return false end
  p.all = all
  return true
end

-- A value that was lost is no reason to forget what is in flight.
function permits.stand(p)
  if not p.found then p.all = hold.all_units(p) end
  p.at, p.in_flight = now, max(0, p.all - hold.ended_units(p))
  return true
end

function permits.ask(p, cost)
  if cost > p.limit then
    p.retry = false
    return false
  end
  local excess = p.in_flight + cost - p.limit
  if excess <= 0 then return 0 end
  p.retry = max(1, hold.end_of(p, excess) - now)
  return false
end

-- What has ended goes where anything is left that is in flight.
function permits.count_out(p)
  local units = p.is_counted_out and 0 or hold.ended_units(p)
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
  return max(0, p.limit - p.in_flight)
end

-- Nobody holds anything for longer.
function permits.lasts(p)
  return p.length
end

function permits.write(p)
  return pack(PERMITS_ENTRY, p.head, now, p.all)
end

-- As that of a log.
function permits.reading(p, before)
  local wait = p.retry or 0
  if p.retry == false then wait = READING_NEVER end
  local reset = 0
  if p.in_flight > 0 then reset = max(0, hold.last_end(p) - now) end
  return pack(READING, 0, wait, before, permits.remaining(p), reset, 0, 0, now)
end

return permits

end
