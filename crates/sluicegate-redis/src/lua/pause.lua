-- Pauses: a subject is denied until a time, under its whole limit or one policy. Each pause is an entry of its
-- own kind in the value, which older programs keep. Its identity is that of the policy, or 0 for the whole limit.
-- It has the time when it was set, and its end. No fast path accepts a value with such an entry.

-- Reads the subjects' pauses, and restamps them if the request heeds or changes pauses.
--
-- reads   subjects, heeded, operation, now, ahead
-- makes   whole: the id of a pause of the whole limit; write_pause; pauses and repaused of each subject
-- sets    notes: 1 if an entry was invalid
function READ_PAUSES()
  local whole = string.char(PAUSE_KIND) .. string.rep('\0', ID_SIZE - 1)
  local restamps = heeded or operation == PAUSE or operation == RESUME

  local function write_pause(id, pause)
    local useful, retention = pause.ends - pause.newest, nil
    RETENTION(useful, retention)
    return id .. string.char(retention) .. pack(LENGTH, PAIR_SIZE) .. pack(PAIR, pause.newest, pause.ends)
  end

  for _, s in ipairs(subjects) do
    for _, each in ipairs(s.order) do
      local id, newest, ends = each[1], MAX, 0
      if string.byte(id) == PAUSE_KIND then
        s.mine[id], s.pauses = true, s.pauses or {}
        if each[3] == LISTED_HEAD_SIZE + PAIR_SIZE then
          newest, ends = unpack(PAIR, s.value, each[2] + LISTED_HEAD_SIZE)
        end
        if newest > ends or ends > MAX then
          notes = 1
        elseif restamps and newest > ahead then
          -- In this order no sum is above 2^53.
          s.pauses[id], s.repaused = { newest = now, ends = now + (ends - newest), place = each[2] }, true
        else
          s.pauses[id] = { newest = newest, ends = ends }
        end
      end
    end
  end
end

-- Denies a request that a ban or a pause refuses: the longest of each. Then only restamped ones are written.
--
-- reads   subjects, bans, heeded, whole, write_pause, program, count, operation, now
function REFUSE()
  local by_ban, ban_rest = bans and bans.refuses or 0, bans and bans.longest or 0
  local by_part, by_policy, pause_rest = 0, 0, 0
  local function weigh(part, policy, pause)
    local rest = pause and pause.ends - now or 0
    if rest > pause_rest then by_part, by_policy, pause_rest = part, policy, rest end
  end

  local is_any, part, from = false, 1, FIRST_POLICY
  for _, s in ipairs(subjects) do is_any = is_any or heeded and s.pauses end
  for policy = 1, is_any and count or 0 do
    local id = string.char(PAUSE_KIND) .. string.sub(program, from + 1, from + (ID_SIZE - 1))
    local _, _, _, _, cost, _, flags, _, behind = unpack(POLICY, program, from)
    local _, _, tiers, after = unpack(POLICY_FURTHER, program, behind)
    from = after + tiers * PAIR_SIZE
    if floor(flags / NEXT_PART) % 2 == 1 then part = part + 1 end
    if cost > 0 and subjects[part].pauses then
      weigh(part, 0, subjects[part].pauses[whole])
      weigh(part, policy, subjects[part].pauses[id])
    end
  end
  if by_ban > 0 or by_part > 0 then
    for index, s in ipairs(operation ~= PEEK and subjects or {}) do
      local b, value = bans and bans[index], s.value
      local function replace(place, entry)
        value = string.sub(value, 1, place - 1) .. entry .. string.sub(value, place + #entry)
      end
      if b and b.changed then replace(b.place, bans.write(b)) end
      for id, pause in pairs(s.repaused and s.pauses or {}) do
        if pause.place then replace(pause.place, write_pause(id, pause)) end
      end
      if value ~= s.value then redis.call('SET', all_keys[first + index - 1], value, 'KEEPTTL') end
    end
    return '!', pack(REFUSED, bans and bans.restamped or 0, by_ban, by_part, by_policy, ban_rest, pause_rest)
  end
end

-- Sets or ends pauses of the only subject. The policy that costs 1 is meant, or the whole limit.
--
-- reads   subjects, policies, whole, operation, term, now
function CHANGE_PAUSES()
  if operation == PAUSE or operation == RESUME then
    local s, id = subjects[1], whole
    local pauses = s.pauses or {}
    for _, p in ipairs(policies) do
      if p.cost > 0 then id = string.char(PAUSE_KIND) .. sub(p.id, 2) end
      p.cost = 0
    end
    for other, pause in pairs(pauses) do
      local leaves = operation == PAUSE and pause.ends <= now or operation == RESUME and (id == whole or id == other)
      if leaves then pauses[other], s.repaused = nil, true end
    end
    if operation == PAUSE then
      local before = pauses[id] or { newest = 0, ends = 0 }
      pauses[id] = { newest = max(before.newest, now), ends = max(before.ends, min(now + term, MAX)) }
      s.mine[id], s.repaused = true, true
    end
    s.pauses = pauses
  end
end
