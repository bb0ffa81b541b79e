-- The window kernels: fixed windows and the two-cell counter. Twins of kernel/window.rs and
-- kernel/counter.rs.

-- Fixed window: a anchor (0 first admitted, 1 aligned, 2 calendar), b length, limit; of a calendar
-- b, c, e, g are four boundaries.
local window = {}

-- The window that holds an instant, without a state; nil when the boundaries don't.
local function window_at(p, at)
  if p.a == 0 then return at, at + p.b end
  if p.a == 1 then return at - at % p.b, at - at % p.b + p.b end
  if at < p.b or at >= p.g then return nil end
  if at < p.c then return p.b, p.c end
  if at < p.e then return p.c, p.e end
  return p.e, p.g
end

function window.read(p, position)
  local _, newest, start, used = unpack('>BI7I7I7', value, position + 5)
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
  if p.found and p.a == 0 and p.at < then_start + p.b then
    p.start, p.finish = then_start, then_start + p.b
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
  if p.open then p.used, p.changed = max(0, p.used - units), true end
end

function window.remaining(p)
  return max(0, p.limit - p.used)
end

function window.lasts(p)
  return p.finish - p.at
end

function window.write(p)
  return pack('>c5BI7I7I7', p.id, p.retention, p.newest, p.start, p.used)
end

-- Two-cell counter: a length, b step, c steps, limit.
local counter = {}

function counter.read(p, position)
  local _, newest, start, previous, current = unpack('>BI7I7I7I7', value, position + 5)
  if newest > MAX or start > newest or previous > MAX or current > MAX then return false end
  p.newest, p.start, p.previous, p.current = newest, start, previous, current
  return true
end

function counter.stand(p)
  if not p.found then
    p.newest, p.start, p.previous, p.current = now, 0, 0, 0
  elseif p.newest > ahead then
    p.newest, p.restamped = now, true
    if p.start > now - now % p.a then
      p.start = now - now % p.a
      if p.previous > MAX - p.current then return false end
      p.previous, p.current = 0, p.previous + p.current
    end
  end
  p.at = max(now, p.newest)
  local start = p.at - p.at % p.a
  if start - p.start == p.a then
    p.previous, p.current = p.current, 0
  elseif start ~= p.start then
    p.previous, p.current = 0, 0
  end
  p.start = start
  return true
end

-- The steps left of the current cell.
local function left(p)
  return p.c - floor((p.at - p.start) / p.b)
end

function counter.ask(p, cost)
  local room = p.limit - cost - p.current
  if cost > p.limit or room < 0 then return false end
  return (p.previous == 0 or left(p) <= floor(room * p.c / p.previous)) and 0
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
  if p.current > 0 then p.current, p.changed = max(0, p.current - units), true end
end

function counter.remaining(p)
  -- More than the limit leaves nothing, and its product might pass 2^53.
  local whole = p.limit * p.c
  if p.previous > floor(whole / left(p)) then return 0 end
  return max(0, floor((whole - p.previous * left(p)) / p.c) - p.current)
end

function counter.lasts(p)
  if p.current > 0 then return p.start + 2 * p.a - p.at end
  return p.start + p.a - p.at
end

function counter.write(p)
  return pack('>c5BI7I7I7I7', p.id, p.retention, p.newest, p.start, p.previous, p.current)
end

kernels[3], kernels[4] = window, counter
