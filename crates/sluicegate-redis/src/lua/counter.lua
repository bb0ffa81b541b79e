-- The two-cell sliding counter. The Lua port of kernel/counter.rs.

function COUNTER_TWIN()
  local counter = {}

  -- A cell has a length in µs, and in steps, which measure elapsed time.
  function counter.numbers(p, length, step, steps)
    p.length, p.step, p.steps = length, step, steps
  end

  function counter.read(p, value, position)
    local _, newest, start, previous, current = unpack(COUNTER_ENTRY, value, position)
    if newest > MAX or start > newest or previous > MAX or current > MAX then return false end
    p.newest, p.start, p.previous, p.current = newest, start, previous, current
    return true
  end

  function counter.stand(p, now)
    if not p.found then
      p.newest, p.start, p.previous, p.current = now, 0, 0, 0
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
      if p.start > now - now % p.length then
        p.start = now - now % p.length
        if p.previous > MAX - p.current then return false end
        p.previous, p.current = 0, p.previous + p.current
      end
    end
    p.at = max(now, p.newest)
    STAND_CELLS(p.at, p.length, p.start, p.previous, p.current)
    return true
  end

  -- Returns the remaining steps of the current cell.
  local function left(p)
    return p.steps - floor((p.at - p.start) / p.step)
  end

  function counter.ask(p, cost)
    local steps_left, passes = left(p), nil
    CELLS_PASS(cost, p.limit, p.previous, p.current, steps_left, p.steps, passes)
    return cost <= p.limit and passes and 0
  end

  local function set_counter(p, current)
    p.newest, p.current, p.changed = p.at, current, true
  end

  function counter.admit(p, cost)
    if p.current > MAX - cost then return false end
    set_counter(p, p.current + cost)
    return true
  end

  function counter.charge_denied(p, cost)
    set_counter(p, p.current + min(cost, max(0, p.limit - p.current)))
    return true
  end

  function counter.refund(p, units)
    if p.current > 0 then
      p.given, p.current, p.changed = min(units, p.current), max(0, p.current - units), true
    end
  end

  function counter.give_back(p, units, taken_at)
    if taken_at >= p.start and taken_at <= p.at then counter.refund(p, units) end
  end

  function counter.remaining(p)
    -- More than the limit leaves no units, and its product might pass 2^53.
    local whole = p.limit * p.steps
    if p.previous > floor(whole / left(p)) then return 0 end
    return max(0, floor((whole - p.previous * left(p)) / p.steps) - p.current)
  end

  function counter.lasts(p)
    if p.current > 0 then return p.start + 2 * p.length - p.at end
    return p.previous > 0 and p.start + p.length - p.at or 0
  end

  function counter.write(p)
    return pack(COUNTER_ENTRY, p.head, p.newest, p.start, p.previous, p.current)
  end

  return counter
end
