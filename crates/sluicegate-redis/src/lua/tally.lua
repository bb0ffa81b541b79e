-- The number of a subject's records, as an entry of the packed states. It has groups of records that end by a
-- time, each with that time and their number, in the order of the times. It also has the generation of the
-- records that count: a reset starts another one, so that earlier records no longer count.
--
--   TALLY until generation, and of each group: until number
--
-- A group ends with the slot for holds of that lifetime (hold.lua).

function MAKE_TALLY()
  local tally = (operation >= HELD or operation == RESET) and { id = string.char(TALLY_KIND) .. string.rep('\0',
    ID_SIZE - 1) }
  if tally then
    local all = {}

    -- Returns the tally of a part, or an empty one if the stored entry is missing or malformed.
    function tally.of(part)
      if all[part] then return all[part] end
      local t = { ends = 0, generation = 0, groups = {} }
      all[part] = t
      local s = tally.subjects[part]
      local place = s.positions[tally.id]
      if not place then return t end
      local from, is_there, ends, generation, groups, after = place[1], nil, nil, nil, nil, nil
      READ_TALLY(s.value, from, is_there, ends, generation, groups, after)
      if is_there then t.is_there, t.ends, t.generation, t.groups = true, ends, generation, groups end
      return t
    end

    function tally.live(part)
      local groups, live = tally.of(part).groups, nil
      LIVE_RECORDS(groups, now, live)
      return live
    end

    -- Counts a record in the group with this end, or in a later one if there are too many groups. Returns the
    -- end of the group.
    function tally.count_in(part, ends)
      local t, group = tally.of(part), nil
      LIVE_GROUPS(t.groups, now)
      COUNT_IN(t.groups, ends, TALLY_GROUPS, group)
      t.changed, t.ends = true, max(t.ends, group[1])
      return group[1]
    end

    -- Removes a record from the group with this end, if it exists.
    function tally.count_out(part, ends)
      local t = tally.of(part)
      COUNT_OUT(t.groups, ends, t.changed)
    end

    -- Resets the tally: starts another generation, without groups.
    function tally.begin(part)
      local t = tally.of(part)
      t.generation, t.groups = max(now, t.generation + 1), {}
    end

    -- Returns the time for which the tally is useful.
    function tally.lasts(part)
      return max(0, tally.of(part).ends - now)
    end

    -- Returns the entry; an empty text if it is useless.
    function tally.write(part)
      local t = tally.of(part)
      local entry
      WRITE_TALLY(t.ends, now, t.generation, t.groups, entry)
      return entry
    end
  end
end
