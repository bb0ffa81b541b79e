-- The fixed window. The Lua port of kernel/window.rs.

function WINDOW_TWIN()
  local window = { leased = WINDOW_LEASED, numbers_size = WINDOW_SIZE - HEAD_SIZE }

  -- A calendar window has four boundaries in place of a length, because its lengths differ.
  function window.numbers(p, anchor, length, second, third, fourth)
    p.anchor, p.length, p.first, p.second, p.third, p.fourth = anchor, length, length, second, third, fourth
  end

  -- Returns the start and end of the window of an instant. `then_start` is the start of a stored window, if
  -- there is one. Returns nil if the instant is outside of a calendar's boundaries.
  local function window_at(p, at, then_start)
    if p.anchor == FIRST_ADMITTED or p.anchor == ALIGNED then
      local start
      WINDOW_START(at, p.anchor, p.length, then_start, start)
      return start, start + p.length
    end
    if at < p.first or at >= p.fourth then return nil end
    if at < p.second then return p.first, p.second end
    if at < p.third then return p.second, p.third end
    return p.third, p.fourth
  end

  function window.read(p, value, position)
    local _, newest, start, used = unpack(WINDOW_ENTRY, value, position)
    if newest > MAX or start > newest or used > MAX then return false end
    p.newest, p.start, p.used = newest, start, used
    return true
  end

  function window.stand(p, now)
    local then_start, then_used = p.start, p.used
    if not p.found then
      p.newest = now
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
      local start = window_at(p, now)
      if not start then
        p.at = now
        return nil
      end
      then_start = min(then_start, start)
    end
    p.at = max(now, p.newest)
    p.start, p.finish = window_at(p, p.at, p.found and then_start)
    if not p.start then return nil end
    p.open = p.found and then_start == p.start
    p.used = p.open and then_used or 0
    return true
  end

  function window.ask(p, cost)
    return cost <= p.limit and p.used <= p.limit - cost and 0
  end

  local function set_window(p, used)
    p.newest, p.used, p.changed = p.at, used, true
  end

  function window.admit(p, cost)
    if p.used > MAX - cost then return false end
    set_window(p, p.used + cost)
    return true
  end

  function window.charge_denied(p, cost)
    local room = max(0, p.limit - p.used)
    set_window(p, p.used + min(cost, room))
    return true
  end

  function window.refund(p, units)
    if p.open then p.given, p.used, p.changed = min(units, p.used), max(0, p.used - units), true end
  end

  function window.give_back(p, units, taken_at)
    if taken_at >= p.start and taken_at <= p.at then window.refund(p, units) end
  end

  function window.pin(p, units)
    p.newest, p.used, p.open = p.at, max(p.used, units), true
  end

  function window.used_beyond(p, units)
    return max(0, p.used - units)
  end

  function window.remaining(p)
    return max(0, p.limit - p.used)
  end

  function window.lasts(p)
    -- An open window stays open even if all of its units were given back.
    return (p.used > 0 or p.anchor == FIRST_ADMITTED) and p.finish - p.at or 0
  end

  function window.write(p)
    return pack(WINDOW_ENTRY, p.head, p.newest, p.start, p.used)
  end

  return window
end
