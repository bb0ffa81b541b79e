-- The fixed window. Twin of kernel/window.rs.

function WINDOW_TWIN()
  local window = { leased = WINDOW_LEASED, numbers_size = WINDOW_SIZE - HEAD_SIZE }

  -- Of a window of the calendar, whose lengths differ, four boundaries take the place of the length.
  function window.numbers(p, anchor, length, second, third, fourth)
    p.anchor, p.length, p.first, p.second, p.third, p.fourth = anchor, length, length, second, third, fourth
  end

  -- The window that holds an instant, without a state; nil when the boundaries don't.
  local function window_at(p, at)
    if p.anchor == FIRST_ADMITTED then return at, at + p.length end
    if p.anchor == ALIGNED then return at - at % p.length, at - at % p.length + p.length end
    if at < p.first or at >= p.fourth then return nil end
    if at < p.second then return p.first, p.second end
    if at < p.third then return p.second, p.third end
    return p.third, p.fourth
  end

  function window.read(p, position)
    local _, newest, start, used = unpack(WINDOW_ENTRY, value, position)
    if newest > MAX or start > newest or used > MAX then return false end
    p.newest, p.start, p.used = newest, start, used
    return true
  end

  function window.stand(p)
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
    if p.found and p.anchor == FIRST_ADMITTED and p.at < then_start + p.length then
      p.start, p.finish = then_start, then_start + p.length
    else
      p.start, p.finish = window_at(p, p.at)
      if not p.start then return nil end
    end
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
