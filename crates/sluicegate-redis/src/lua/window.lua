-- The fixed window. The Lua port of kernel/window.rs.

function WINDOW_TWIN()
  local window = { leased = WINDOW_LEASED, numbers_size = WINDOW_SIZE - HEAD_SIZE }

  -- A calendar has pairs in place of a length, because its lengths differ. They are four boundaries, each with
  -- the name of the window that begins there. Across zones, `length` is how long states are kept after that date.
  function window.numbers(p, anchor, length)
    p.anchor, p.length = anchor, length
  end

  -- Returns the start, end and name of the window of an instant. A stored state has the name of its window, which
  -- is its start, or its first date across zones. `then_name` is that of a stored window, if there is one. Returns
  -- nil if the instant is outside of a calendar's boundaries.
  local function window_at(p, at, then_name)
    if p.anchor == FIRST_ADMITTED or p.anchor == ALIGNED then
      local start
      WINDOW_START(at, p.anchor, p.length, then_name, start)
      return start, start + p.length, start
    end
    for each = 1, 3 do
      local this, following = p.pairs[each], p.pairs[each + 1]
      if at >= this[1] and at < following[1] then return this[1], following[1], this[2] end
    end
    return nil
  end

  function window.read(p, value, position)
    local _, newest, name, used = unpack(WINDOW_ENTRY, value, position)
    if newest > MAX or name > newest or used > MAX then return false end
    p.newest, p.name, p.used = newest, name, used
    return true
  end

  function window.stand(p, now)
    local then_name, then_used = p.name, p.used
    if not p.found then
      p.newest = now
    elseif p.newest > ahead then
      p.newest, p.restamped = now, true
      local start, _, name = window_at(p, now)
      if not start then
        p.at = now
        return nil
      end
      then_name = min(then_name, name)
    end
    p.at = max(now, p.newest)
    p.start, p.finish, p.name = window_at(p, p.at, p.found and then_name)
    if not p.start then return nil end
    if p.found and p.anchor == ACROSS_ZONES then
      -- A date that the key has begun in another zone stays begun. No zone is more than a day ahead of UTC.
      then_name = min(then_name, floor(p.newest / DAY) + 1)
      p.name = max(p.name, then_name)
    end
    p.open = p.found and then_name == p.name
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

  function window.count_denied(p, cost)
    set_window(p, min(p.used + cost, MAX))
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
    -- Until the date has ended in every zone, because the key can move to any of them.
    if p.anchor == ACROSS_ZONES then return max(0, p.name * DAY + p.length - p.at) end
    -- An open window stays open even if all of its units were given back.
    return (p.used > 0 or p.anchor == FIRST_ADMITTED) and p.finish - p.at or 0
  end

  function window.write(p)
    return pack(WINDOW_ENTRY, p.head, p.newest, p.name, p.used)
  end

  return window
end
