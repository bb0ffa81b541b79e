-- Leases: what is outstanding of a policy. Twin of kernel/leased.rs and step/lease.rs of the core.

makers.leases = function()

local leases = {}

-- Counts at least what is outstanding as used.
local function pin(p)
  local units = 0
  for _, slot in ipairs(p.slots) do units = units + slot[2] end
  if units > 0 then p.kernel.pin(p, units) end
end

leases.pin = pin

-- The units that count as used beyond what is outstanding.
function leases.used_beyond(p)
  local units = 0
  for _, slot in ipairs(p.slots) do units = units + slot[2] end
  return p.kernel.used_beyond(p, units)
end

-- The state, as if nothing were leased, and behind it the slots: until when how many units are
-- outstanding, and what the slot is called.
function leases.read(p, position, length)
  local whole, finish = value, position + length
  local place = position + LISTED_HEAD_SIZE + p.kernel.numbers_size
  local slots = (finish - place) / LEASE_SLOT_SIZE
  if slots < 1 or slots > LEASE_SLOTS or slots % 1 > 0 then return false end
  value = sub(whole, position, position + (HEAD_SIZE - 1)) .. sub(whole, position + LISTED_HEAD_SIZE, place - 1)
  local is_read = p.kernel.read(p, 1)
  value = whole
  if not is_read then return false end
  local last, all = p.newest, 0
  p.slots = {}
  while place < finish do
    local ends, units, tag
    ends, units, tag, place = unpack(LEASE_SLOT, whole, place)
    all = all + units
    if ends < last or ends <= p.newest or ends > MAX or units == 0 or all > MAX or tag > MAX then
      p.slots = nil
      return false
    end
    p.slots[#p.slots + 1], last = { ends, units, tag }, ends
  end
  return true
end

function leases.stand(p)
  local slots, present = p.slots, now
  if p.newest > ahead then
    -- Leases end no later than the longest one that begins now.
    for _, slot in ipairs(slots) do slot[1] = min(slot[1], now + LONGEST_LEASE) end
  else
    local at = max(now, p.newest)
    while slots[1] and slots[1][1] <= at do
      if p.kernel.drains then
        now = slots[1][1]
        local stands = p.kernel.stand(p)
        now = present
        if not stands then return stands end
        pin(p)
      end
      table.remove(slots, 1)
    end
  end
  local stands = p.kernel.stand(p)
  if stands then pin(p) end
  return stands
end

-- What became of units that were leased in a slot.
function leases.report(p, tag, spent, returned)
  for place, slot in ipairs(p.slots or {}) do
    if slot[3] == tag then
      returned = min(returned, slot[2])
      local over = returned + min(spent, slot[2] - returned)
      if over > 0 then
        slot[2] = slot[2] - over
        if slot[2] == 0 then table.remove(p.slots, place) end
        if returned > 0 then p.kernel.refund(p, returned) end
        pin(p)
        p.changed = true
      end
      return
    end
  end
end

-- The first slot of a policy that has this as its end, or as its tag.
local function find(p, which, number)
  for _, slot in ipairs(p.slots or {}) do
    if slot[which] == number then return slot end
  end
end

-- Takes units ahead of all policies that are charged, or of none.
function leases.grant(policies, want, width, tag)
  local ends, times, is_any = now - now % width + LEASE_AHEAD * width, want, false
  for _, p in ipairs(policies) do
    if p.cost > 0 then
      is_any = true
      times = min(times, floor(floor(p.kernel.remaining(p) / LEASE_SHARE) / p.cost))
      if p.finish then ends = min(ends, p.finish) end
    end
  end
  if not is_any or times == 0 or ends > MAX then return end
  for _, p in ipairs(policies) do
    local slot = p.cost > 0 and find(p, 1, ends)
    if slot then
      tag = slot[3]
      break
    end
  end
  for _, p in ipairs(policies) do
    if p.cost > 0 then
      p.slots = p.slots or {}
      local slot = find(p, 3, tag)
      local has_room = #p.slots < LEASE_SLOTS
      if slot then has_room = slot[1] == ends end
      if ends <= p.at or not has_room then return end
    end
  end
  for _, p in ipairs(policies) do
    if p.cost > 0 then
      local units, slot = times * p.cost, find(p, 3, tag)
      p.kernel.admit(p, units, 0)
      if slot then
        slot[2] = slot[2] + units
      else
        local place = 1
        while p.slots[place] and p.slots[place][1] <= ends do place = place + 1 end
        table.insert(p.slots, place, { ends, units, tag })
      end
    end
  end
end

-- A fresh state, of which the same is outstanding: it needs nothing of the old one.
function leases.forget(p)
  local live = {}
  for _, slot in ipairs(p.slots) do
    if p.newest > ahead then
      slot[1] = min(slot[1], now + LONGEST_LEASE)
      live[#live + 1] = slot
    elseif slot[1] > max(now, p.newest) then
      live[#live + 1] = slot
    end
  end
  p.slots, p.found = live, false
  local stands = p.kernel.stand(p)
  if stands then pin(p) end
  return stands
end

-- For how long the last lease goes on.
function leases.lasts(p)
  return max(0, p.slots[#p.slots][1] - p.at)
end

function leases.write(p)
  local plain = p.kernel.write(p)
  local retention = max(string.byte(plain, HEAD_SIZE), LEASE_RETENTION) + 1
  local numbers = { sub(plain, HEAD_SIZE + 1) }
  for place, slot in ipairs(p.slots) do numbers[place + 1] = pack(LEASE_SLOT, slot[1], slot[2], slot[3]) end
  numbers = table.concat(numbers)
  return p.leased_id .. string.char(retention) .. pack(LENGTH, #numbers) .. numbers
end

return leases

end
