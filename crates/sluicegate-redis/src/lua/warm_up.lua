-- Smooth warm-up. The Lua port of kernel/warm_up.rs.

function WARM_UP_TWIN()
  local warm_up = {}

  function warm_up.numbers(p, unit, refill, store)
    p.unit, p.refill, p.store = unit, refill, store
  end

  local function rest(p)
    local elapsed = p.at - p.newest
    p.owed = max(0, p.debt - elapsed)
    p.deficit = max(0, p.held - max(0, elapsed - p.debt) * p.refill)
  end

  function warm_up.read(p, value, position)
    local _, newest, debt, deficit, unit = unpack(WARM_UP_ENTRY, value, position)
    if newest > MAX or debt > MAX or deficit > MAX or unit > MAX or unit == 0 then return false end
    p.newest, p.debt, p.held, p.then_unit = newest, debt, deficit, unit
    return true
  end

  function warm_up.stand(p, now)
    if not p.found then
      p.newest, p.debt, p.held = now, 0, 0
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
    end
    if p.found then
      p.held = convert(p.held, p.unit, p.then_unit)
      if not p.held then return false end
    end
    p.at = max(now, p.newest)
    rest(p)
    return true
  end

  function warm_up.ask(p, _, accepted)
    return p.refill > 0 and p.owed <= (accepted or 0) and p.owed
  end

  function warm_up.admit(p, cost, act_in)
    if p.store == 0 or cost > floor(MAX / p.unit) then return false end
    local ticks, stored = cost * p.unit, max(0, p.store - p.deficit)
    local taken = min(ticks, stored)
    local bottom = max(stored - taken, p.store / 2)
    local above = max(0, stored - bottom)
    local linear, scale = ticks - above, p.store * p.refill
    -- linear·c/scale + above·slope/scale, rounded up once.
    local wait, part = floor(linear / p.refill), linear % p.refill * p.store
    local whole, left = muldiv(above, max(0, 2 * (stored + bottom) - p.store), scale)
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
    -- A product above 2^53 isn't exact, but surely more than is stored.
    local taken = min(cost * p.unit, max(0, p.store - p.deficit))
    p.newest, p.deficit, p.changed = p.at, p.deficit + taken, true
    p.debt, p.held = p.owed, p.deficit
    return true
  end

  function warm_up.refund(p, units)
    local micros, left = 0, MAX
    if units <= floor(MAX / p.unit) then left = units * p.unit end
    if p.refill > 0 then
      -- The exact worth of the ticks, which may pass 2^53. If it exceeds any debt, more is left than any
      -- deficit.
      local worth, part = muldiv(units, p.unit, p.refill)
      if worth and worth <= p.debt then
        micros, left = worth, part
      else
        micros = p.debt
        local paid = micros * p.refill
        if units <= floor(MAX / p.unit) then
          left = units * p.unit - paid
        elseif worth and worth - micros <= floor(MAX / p.refill) then
          left = min(MAX, (worth - micros) * p.refill + part)
        end
      end
    end
    p.held = max(0, p.held - left)
    p.debt, p.changed = p.debt - micros, true
    rest(p)
  end

  function warm_up.remaining(p)
    return (p.owed == 0 and p.refill > 0) and 2 * MAX or 0
  end

  function warm_up.lasts(p)
    if p.deficit == 0 then return p.owed end
    return p.owed + ceil(p.deficit / p.refill)
  end

  function warm_up.write(p)
    return pack(WARM_UP_ENTRY, p.head, p.newest, p.debt, p.held, p.unit)
  end

  return warm_up
end
