-- Bans: a subject with too many denials is denied for a time. Its denials are an entry of its own kind in the
-- value, which older programs keep. A program with bans has each part's ban before its id, its ticket, its
-- hold, its queue position and its end. A ban has flags, the number of denials and their window, the first
-- duration and the longest. Without a ban the number of denials is 0.
--
-- makes   heeded (whether bans and pauses deny the operation); bans (each part's ban, and the longest one that
--         denies the request, which pause.lua answers)

function MAKE_BANS()
  local heeded = operation == CHECK or operation == PEEK or operation == RESERVE or operation == TAKE
  local bans = count >= BANS and { values = {} }
  if bans then
    count = count - BANS
    local once = string.byte(program, LANE_PLACE) >= ONCE_LANE
    local after = PROGRAM_END_SIZE + (hold and HOLD_SIZE or 0) + (hold and hold.waits and TICKET_SIZE or 0)
      + (once and ONCE_SIZE or 0) + (line and PLACE_IN_PROGRAM_SIZE or 0)
    local place = #program + 1 - after - parts * BAN_SIZE
    bans.refuses, bans.longest, bans.restamped = 0, 0, 0
    bans.id = string.char(BAN_KIND) .. string.rep('\0', ID_SIZE - 1)

    -- Returns the place and the length of a value's entry.
    local function find(value)
      local found, size
      walk(value, function(position, length)
        if string.sub(value, position, position + (ID_SIZE - 1)) == bans.id then found, size = position, length end
      end)
      return found, size
    end

    local function read(value, b)
      local place, length = find(value)
      if not place then return end
      b.place, b.length = place, length
      if length ~= BAN_ENTRY_SIZE then return end
      local _, _, newest, since, denials, ends, lasted = unpack(BAN_ENTRY, value, place)
      if max(newest, since, ends) > MAX or denials > BAN_MOST_DENIALS or lasted > BAN_LONGEST then return end
      b.known, b.newest, b.since, b.denials, b.ends, b.lasted = true, newest, since, denials, ends, lasted
    end

    -- Returns twice the latest ban, unless that is forgotten; else 0.
    local function doubled(b)
      if not b.doubles or now - b.ends >= b.most then return 0 end
      return 2 * b.lasted
    end

    local function begin(b, lasts)
      b.known, b.changed = true, true
      b.newest, b.since, b.denials, b.ends = max(b.newest, now), 0, 0, max(b.ends, min(now + lasts, MAX))
    end

    -- Returns the time until which the entry differs from a missing one.
    function bans.useful(b)
      local quiet = b.doubles and b.lasted > 0 and b.most or 0
      return max(b.denials > 0 and b.since + b.within or 0, b.ends + quiet)
    end

    function bans.write(b)
      local useful, retention = bans.useful(b) - b.newest, nil
      RETENTION(useful, retention)
      return pack(BAN_ENTRY, BAN_HEAD + retention, BAN_ENTRY_SIZE - LISTED_HEAD_SIZE, b.newest, b.since, b.denials,
        b.ends, b.lasted)
    end

    -- Counts a denial if a part's own policies denied, unless the request waits. Also bans manually, and
    -- lifts a ban.
    function bans.count(subjects, allowed)
      for part, s in ipairs(subjects) do
        local b, refused = bans[part], false
        if not (queue and queue.place) then
          for _, p in ipairs(s.policies) do refused = refused or not p.shadow and not p.wait end
        end
        if b and operation == BAN_BY_HAND then
          local lasted = doubled(b) == 0 and 0 or b.lasted
          begin(b, term)
          b.lasted = lasted
        elseif b and operation == LIFT_BAN then
          b.changed, b.known = b.place, false
        elseif b and heeded and operation ~= PEEK and not allowed and refused then
          if b.denials == 0 or now - b.since >= b.within then b.since, b.denials = now, 0 end
          b.denials = b.denials + 1
          if b.denials >= b.after then
            local lasts = doubled(b)
            lasts = lasts == 0 and b.first or min(max(lasts, b.first), b.most)
            begin(b, lasts)
            b.lasted = lasts
          else
            b.known, b.changed, b.newest = true, true, max(b.newest, now)
          end
        end
      end
    end

    for part = 1, parts do
      local flags, after, within, first_length, most
      flags, after, within, first_length, most, place = unpack(BAN, program, place)
      if after > 0 then
        local b = { after = after, within = within, first = first_length, most = most, doubles = flags % 2 == DOUBLING }
        b.newest, b.since, b.denials, b.ends, b.lasted = 0, 0, 0, 0, 0
        local value = value
        if part > 1 then
          value = call('GET', all_keys[first + part - 1])
          bans.values[part] = value
        end
        bans[part] = b
        if value and not value.err then read(value, b) end
        if b.newest > ahead and operation ~= RESET then
          b.newest, b.since, b.ends = now, min(b.since, now), min(b.ends, now + most)
          b.changed, bans.restamped = true, 1
        end
        if heeded and flags >= ASKED and b.ends - now > bans.longest then
          bans.refuses, bans.longest = part, b.ends - now
        end
      end
    end
  end
end
