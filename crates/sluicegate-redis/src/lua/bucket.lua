-- The bucket kernel and warm-up. Twins of kernel/bucket.rs and kernel/warm_up.rs.

-- a·b ÷ c as quotient and remainder, by doubling, so that nothing passes 2^53; nil above it.
local function muldiv(a, b, c)
  local whole, part = floor(b / c), b % c
  local quotient, rest, bit = 0, 0, 4503599627370496
  while bit >= 1 do
    quotient = 2 * quotient
    if rest >= c - rest then
      quotient, rest = quotient + 1, rest - (c - rest)
    else
      rest = 2 * rest
    end
    if a >= bit then
      a, quotient = a - bit, quotient + whole
      if rest >= c - part then
        quotient, rest = quotient + 1, rest - (c - part)
      else
        rest = rest + part
      end
    end
    if quotient > MAX then return nil end
    bit = bit / 2
  end
  return quotient, rest
end

-- A deficit in the ticks of another unit, rounded up; nil when it can't be held.
local function convert(deficit, unit, then_unit)
  if unit == then_unit then return deficit end
  local whole, rest = muldiv(deficit, unit, then_unit)
  if whole and rest > 0 then whole = whole + 1 end
  if whole and whole > MAX then return nil end
  return whole
end

local bucket = {}

function bucket.read(p, position)
  local _, newest, deficit, unit = unpack('>BI7I7I7', value, position + 5)
  if newest > MAX or deficit > MAX or unit > MAX or unit == 0 then return false end
  p.newest, p.held, p.then_unit = newest, deficit, unit
  return true
end

function bucket.stand(p)
  if not p.found then
    p.newest, p.held = now, p.e
  elseif p.newest > ahead then
    p.newest, p.restamped = now, true
  end
  if p.found then
    p.held = convert(p.held, p.a, p.then_unit)
    if not p.held then return false end
  end
  p.at = max(now, p.newest)
  p.deficit = max(0, p.held - (p.at - p.newest) * p.b)
  return true
end

-- The wait of a cost, or false when it is refused.
function bucket.ask(p, cost, accepted)
  if p.smooth then
    if p.b == 0 then return false end
    local wait = ceil(max(0, p.deficit - p.c) / p.b)
    return wait <= (accepted or 0) and wait
  end
  if cost > p.limit then return false end
  local over = p.deficit - (p.c - cost * p.a)
  if not p.shaper and over <= 0 then return 0 end
  if p.b == 0 then return false end
  if p.shaper then
    local wait = ceil(p.deficit / p.b)
    return over <= 0 and wait <= (accepted or MAX) and wait
  end
  local wait = ceil(over / p.b)
  return wait <= (accepted or 0) and wait
end

local function set_bucket(p, deficit)
  p.newest, p.held, p.deficit, p.changed = p.at, deficit, deficit, true
end

function bucket.admit(p, cost, wait, act_in)
  local deficit = p.deficit
  if wait < act_in then
    if p.b > floor(MAX / act_in) then return false end
    deficit = max(deficit, p.b * act_in)
  end
  if cost > floor(MAX / p.a) or deficit > MAX - cost * p.a then return false end
  set_bucket(p, deficit + cost * p.a)
  return true
end

function bucket.charge_denied(p, cost)
  local room = max(0, p.c - p.deficit)
  local units = min(cost, p.limit)
  if units <= floor(MAX / p.a) then room = min(room, units * p.a) end
  set_bucket(p, p.deficit + room)
  return true
end

function bucket.refund(p, units)
  local ticks = MAX
  if units <= floor(MAX / p.a) then ticks = units * p.a end
  p.held = max(0, p.held - ticks)
  p.deficit, p.changed = max(0, p.held - (p.at - p.newest) * p.b), true
end

function bucket.remaining(p)
  if p.smooth then return (p.b > 0 and p.deficit <= p.c) and 2 * MAX or 0 end
  return floor(max(0, p.c - p.deficit) / p.a)
end

function bucket.lasts(p)
  if p.deficit == 0 then return p.g end
  return max(p.g, ceil(p.deficit / p.b))
end

function bucket.write(p)
  return pack('>c5BI7I7I7', p.id, p.retention, p.newest, p.held, p.a)
end

-- Warm-up: a unit, b refill, c store.
local warm_up = {}

local function rest(p)
  local elapsed = p.at - p.newest
  p.owed = max(0, p.debt - elapsed)
  p.deficit = max(0, p.held - max(0, elapsed - p.debt) * p.b)
end

function warm_up.read(p, position)
  local _, newest, debt, deficit, unit = unpack('>BI7I7I7I7', value, position + 5)
  if newest > MAX or debt > MAX or deficit > MAX or unit > MAX or unit == 0 then return false end
  p.newest, p.debt, p.held, p.then_unit = newest, debt, deficit, unit
  return true
end

function warm_up.stand(p)
  if not p.found then
    p.newest, p.debt, p.held = now, 0, 0
  elseif p.newest > ahead then
    p.newest, p.restamped = now, true
  end
  if p.found then
    p.held = convert(p.held, p.a, p.then_unit)
    if not p.held then return false end
  end
  p.at = max(now, p.newest)
  rest(p)
  return true
end

function warm_up.ask(p, _, accepted)
  return p.b > 0 and p.owed <= (accepted or 0) and p.owed
end

function warm_up.admit(p, cost, _, act_in)
  if p.c == 0 or cost > floor(MAX / p.a) then return false end
  local ticks, stored = cost * p.a, max(0, p.c - p.deficit)
  local taken = min(ticks, stored)
  local bottom = max(stored - taken, p.c / 2)
  local above = max(0, stored - bottom)
  local linear, scale = ticks - above, p.c * p.b
  -- linear·c/scale + above·slope/scale, rounded up once.
  local wait, part = floor(linear / p.b), linear % p.b * p.c
  local whole, left = muldiv(above, max(0, 2 * (stored + bottom) - p.c), scale)
  if not whole then return false end
  wait = wait + whole
  if part >= scale - left then
    wait, part = wait + 1, part - (scale - left)
  else
    part = part + left
  end
  if part > 0 then wait = wait + 1 end
  local owed = max(p.owed, act_in)
  if wait > MAX or owed > MAX - wait then return false end
  p.newest, p.owed, p.deficit, p.changed = p.at, owed + wait, p.deficit + taken, true
  p.debt, p.held = p.owed, p.deficit
  return true
end

function warm_up.charge_denied(p, cost)
  local taken = max(0, p.c - p.deficit)
  if cost <= floor(MAX / p.a) then taken = min(taken, cost * p.a) end
  p.newest, p.deficit, p.changed = p.at, p.deficit + taken, true
  p.debt, p.held = p.owed, p.deficit
  return true
end

function warm_up.refund(p, units)
  local micros, left = 0, MAX
  if units <= floor(MAX / p.a) then left = units * p.a end
  if p.b > 0 then
    -- The exact worth of the ticks, which may pass 2^53; so many that they outweigh any debt
    -- leave more than any deficit.
    local worth, part = muldiv(units, p.a, p.b)
    if worth and worth <= p.debt then
      micros, left = worth, part
    else
      micros = p.debt
      local paid = micros * p.b
      if units <= floor(MAX / p.a) then
        left = units * p.a - paid
      elseif worth and worth - micros <= floor(MAX / p.b) then
        left = min(MAX, (worth - micros) * p.b + part)
      end
    end
  end
  p.held = max(0, p.held - left)
  p.debt, p.changed = p.debt - micros, true
  rest(p)
end

function warm_up.remaining(p)
  return (p.owed == 0 and p.b > 0) and 2 * MAX or 0
end

function warm_up.lasts(p)
  if p.deficit == 0 then return p.owed end
  return p.owed + ceil(p.deficit / p.b)
end

function warm_up.write(p)
  return pack('>c5BI7I7I7I7', p.id, p.retention, p.newest, p.debt, p.held, p.a)
end

kernels[1], kernels[2] = bucket, warm_up
