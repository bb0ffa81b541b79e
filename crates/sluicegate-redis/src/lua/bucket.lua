-- Token bucket, GCRA, leaky bucket, shaper and smooth bursty. The Lua port of kernel/bucket.rs.

function BUCKET_TWIN()
  local bucket = { leased = BUCKET_LEASED, held = BUCKET_HELD, numbers_size = BUCKET_SIZE - HEAD_SIZE, drains = true }

  function bucket.numbers(p, unit, refill, capacity, fresh, shortest_life)
    p.unit, p.refill, p.capacity, p.fresh, p.shortest_life = unit, refill, capacity, fresh, shortest_life
  end

  function bucket.read(p, value, position)
    local _, newest, deficit, unit = unpack(BUCKET_ENTRY, value, position)
    if newest > MAX or deficit > MAX or unit > MAX or unit == 0 then return false end
    p.newest, p.held, p.then_unit = newest, deficit, unit
    return true
  end

  -- The stored deficit (p.held) is exact, in ticks; p.scale of them make one of the policy's ticks. The
  -- evaluated deficit is in the policy's ticks, rounded up.
  local function stands_at(p, held)
    p.held = held
    p.deficit = ceil(held / p.scale)
    DRAIN(p.deficit, p.newest, p.at, p.refill)
  end

  -- A deficit of another rate stays exact, in ticks fine enough for both rates. So nothing is lost if
  -- programs with different rates take turns. If no state can hold the deficit, it is rounded up.
  local function take_over(p)
    local common = common_divisor(p.unit, p.then_unit)
    local scale, times = p.then_unit / common, p.unit / common
    if max(p.capacity + p.unit, p.refill) <= floor(MAX / scale) and p.held <= floor(MAX / times) then
      p.scale, p.held = scale, p.held * times
    else
      local held = convert(p.held, p.unit, p.then_unit)
      p.held = held
      -- Don't read `p.held`: with a second bound, missing fields are looked up in the state.
      return held
    end
    return p.held
  end

  function bucket.stand(p, now)
    p.scale = 1
    if not p.found then
      p.newest, p.held = now, p.fresh
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
    end
    if p.found and p.then_unit ~= p.unit and not take_over(p) then return false end
    p.at = max(now, p.newest)
    stands_at(p, p.held)
    return true
  end

  -- Returns the wait of a cost, or false if it is denied.
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

  -- Sets the deficit to the result of `change`, in the stored scale; if no state can hold that, in the
  -- rounded one.
  local function set_bucket(p, change, ...)
    local held = max(0, p.held - (p.at - p.newest) * p.refill * p.scale)
    local changed = change(p, held, p.scale, ...)
    if not changed and p.scale > 1 then
      p.held, p.scale = ceil(p.held / p.scale), 1
      changed = change(p, p.deficit, 1, ...)
    end
    if not changed then return false end
    p.newest, p.changed = p.at, true
    stands_at(p, changed)
    return true
  end

  local function admitted(p, deficit, scale, cost, act_in)
    local unit, refill = p.unit * scale, p.refill * scale
    if act_in > 0 then
      if refill > floor(MAX / act_in) then return nil end
      deficit = max(deficit, refill * act_in)
    end
    if cost > floor(MAX / unit) or deficit > MAX - cost * unit then return nil end
    return deficit + cost * unit
  end

  function bucket.admit(p, cost, act_in)
    return set_bucket(p, admitted, cost, act_in)
  end

  local function charged_denied(p, deficit, scale, cost)
    local unit = p.unit * scale
    local room = max(0, p.capacity * scale - deficit)
    local units = min(cost, p.limit)
    if units <= floor(MAX / unit) then room = min(room, units * unit) end
    return deficit + room
  end

  function bucket.charge_denied(p, cost)
    return set_bucket(p, charged_denied, cost)
  end

  local function lower(p, ticks)
    local before = p.deficit
    p.changed = true
    stands_at(p, ticks <= floor(MAX / p.scale) and max(0, p.held - ticks * p.scale) or 0)
    p.given = ceil((before - p.deficit) / p.unit)
  end

  function bucket.refund(p, units)
    -- A product above 2^53 isn't exact, but is surely more than the deficit.
    lower(p, units * p.unit)
  end

  -- Gives back what the units still withhold. That is their cost minus the amount that has flowed back since.
  -- The larger one of the current rate and the rate of the charge, if known, applies. The units of the latest
  -- charge are given back completely.
  function bucket.give_back(p, units, taken_at, then_unit, then_refill, is_last)
    if is_last and not p.shaper then return lower(p, units * p.unit) end
    if p.shaper or p.smooth or taken_at > p.at then return end
    -- A cost beyond what a state can hold was never taken.
    if units > floor(MAX / p.unit) then return end
    local flowed = p.refill * (p.at - taken_at)
    if then_unit and (then_unit ~= p.unit or then_refill ~= p.refill) then
      local then_flowed = then_refill * (p.at - taken_at)
      then_flowed = then_flowed <= MAX and convert(then_flowed, p.unit, then_unit)
      if not then_flowed then return end
      flowed = max(flowed, then_flowed)
    end
    if flowed < units * p.unit then lower(p, units * p.unit - flowed) end
  end

  function bucket.pin(p, units)
    local least = units > floor(MAX / p.unit) and MAX or units * p.unit
    p.scale, p.then_unit, p.newest = 1, p.unit, p.at
    stands_at(p, max(p.deficit, least))
  end

  -- Lowers the deficit to at most this value.
  function bucket.lower_to(p, deficit)
    if deficit < p.deficit then
      p.scale, p.then_unit, p.newest, p.changed = 1, p.unit, p.at, true
      stands_at(p, deficit)
    end
  end

  function bucket.used_beyond(p, units)
    if units > floor(MAX / p.unit) then return 0 end
    return ceil(max(0, p.deficit - units * p.unit) / p.unit)
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
    local held, unit = p.held, p.unit * p.scale
    if held % p.scale == 0 then held, unit = held / p.scale, p.unit end
    return pack(BUCKET_ENTRY, p.head, p.newest, held, unit)
  end

  return bucket
end
