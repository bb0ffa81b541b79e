-- Token bucket, GCRA, leaky bucket, shaper and smooth bursty. Twin of kernel/bucket.rs.

local bucket = {}

function bucket.numbers(p, unit, refill, capacity, fresh, shortest_life)
  p.unit, p.refill, p.capacity, p.fresh, p.shortest_life = unit, refill, capacity, fresh, shortest_life
end

function bucket.read(p, position)
  local _, newest, deficit, unit = unpack(BUCKET_ENTRY, value, position)
  if newest > MAX or deficit > MAX or unit > MAX or unit == 0 then return false end
  p.newest, p.held, p.then_unit = newest, deficit, unit
  return true
end

function bucket.stand(p)
  if not p.found then
    p.newest, p.held = now, p.fresh
  elseif p.newest > ahead then
    p.newest, p.restamped = now, true
  end
  if p.found then
    p.held = convert(p.held, p.unit, p.then_unit)
    if not p.held then return false end
  end
  p.at = max(now, p.newest)
  p.deficit = max(0, p.held - (p.at - p.newest) * p.refill)
  return true
end

-- The wait of a cost, or false when it is refused.
function bucket.ask(p, cost, accepted)
  if p.smooth then
    if p.refill == 0 then return false end
    local wait = ceil(max(0, p.deficit - p.capacity) / p.refill)
    return wait <= (accepted or 0) and wait
  end
  if cost > p.limit then return false end
  local over = p.deficit - (p.capacity - cost * p.unit)
  if not p.shaper and over <= 0 then return 0 end
  if p.refill == 0 then return false end
  if p.shaper then
    local wait = ceil(p.deficit / p.refill)
    return over <= 0 and wait <= (accepted or MAX) and wait
  end
  local wait = ceil(over / p.refill)
  return wait <= (accepted or 0) and wait
end

local function set_bucket(p, deficit)
  p.newest, p.held, p.deficit, p.changed = p.at, deficit, deficit, true
end

function bucket.admit(p, cost, act_in)
  local deficit = p.deficit
  if act_in > 0 then
    if p.refill > floor(MAX / act_in) then return false end
    deficit = max(deficit, p.refill * act_in)
  end
  if cost > floor(MAX / p.unit) or deficit > MAX - cost * p.unit then return false end
  set_bucket(p, deficit + cost * p.unit)
  return true
end

function bucket.charge_denied(p, cost)
  local room = max(0, p.capacity - p.deficit)
  local units = min(cost, p.limit)
  if units <= floor(MAX / p.unit) then room = min(room, units * p.unit) end
  set_bucket(p, p.deficit + room)
  return true
end

local function lower(p, ticks)
  p.held = max(0, p.held - ticks)
  p.deficit, p.changed = max(0, p.held - (p.at - p.newest) * p.refill), true
end

function bucket.refund(p, units)
  lower(p, units <= floor(MAX / p.unit) and units * p.unit or MAX)
end

-- What the units still withhold: less than they cost by what has flowed back since.
function bucket.give_back(p, units, taken_at)
  if p.shaper or p.smooth or taken_at > p.at then return end
  -- A cost beyond what a state can hold was never taken.
  if units > floor(MAX / p.unit) then return end
  local flowed = p.refill * (p.at - taken_at)
  if flowed < units * p.unit then lower(p, units * p.unit - flowed) end
end

function bucket.remaining(p)
  if p.smooth then return (p.refill > 0 and p.deficit <= p.capacity) and 2 * MAX or 0 end
  return floor(max(0, p.capacity - p.deficit) / p.unit)
end

function bucket.lasts(p)
  if p.deficit == 0 then return p.shortest_life end
  return max(p.shortest_life, ceil(p.deficit / p.refill))
end

function bucket.write(p)
  return pack(BUCKET_ENTRY, p.head, p.newest, p.held, p.unit)
end

kernels[BUCKET_KIND] = bucket
