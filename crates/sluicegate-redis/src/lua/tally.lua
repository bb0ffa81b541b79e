-- How many records of what is held a subject has, as an entry of the packed states: groups of those that
-- end by a time, each with that time and their number, in the order of the times. And the generation of
-- those that count: a reset begins another one, so that all records before it count for nothing.
--   TALLY until generation, and of each group: until number
-- A group ends when the slot does that is for what is held for so long (hold.lua).

function MAKE_TALLY()
  local tally = (operation >= HELD or operation == RESET) and { id = string.char(TALLY_KIND) .. string.rep('\0',
    ID_SIZE - 1) }
  if tally then
    local all = {}

    -- That of a part; an empty one if there is none that makes sense.
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

    -- Counts a record in the group that ends then; where there are too many, in one that ends later. Says when
    -- that ends.
    function tally.count_in(part, ends)
      local t, group = tally.of(part), nil
      LIVE_GROUPS(t.groups, now)
      COUNT_IN(t.groups, ends, TALLY_GROUPS, group)
      t.changed, t.ends = true, max(t.ends, group[1])
      return group[1]
    end

    -- Counts a record out of the group that ends then, if that is still there.
    function tally.count_out(part, ends)
      local t = tally.of(part)
      COUNT_OUT(t.groups, ends, t.changed)
    end

    -- What is left of it after a reset.
    function tally.begin(part)
      local t = tally.of(part)
      t.generation, t.groups = max(now, t.generation + 1), {}
    end

    -- For how long it is of use.
    function tally.lasts(part)
      return max(0, tally.of(part).ends - now)
    end

    -- Nothing, if it is of no use.
    function tally.write(part)
      local t = tally.of(part)
      local entry
      WRITE_TALLY(t.ends, now, t.generation, t.groups, entry)
      return entry
    end
  end
end
