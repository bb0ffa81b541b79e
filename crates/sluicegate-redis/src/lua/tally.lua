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
      local from, finish = place[1] + LISTED_HEAD_SIZE, place[1] + place[2]
      if finish - from < PAIR_SIZE or (finish - from) % PAIR_SIZE > 0 then return t end
      t.is_there, t.ends, t.generation, from = true, unpack(PAIR, s.value, from)
      while from < finish do
        local ends, number
        ends, number, from = unpack(PAIR, s.value, from)
        t.groups[#t.groups + 1] = { ends, number }
      end
      return t
    end

    function tally.live(part)
      local live = 0
      for _, group in ipairs(tally.of(part).groups) do
        if group[1] > now then live = live + group[2] end
      end
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
      if t.ends <= now or t.generation == 0 and not t.groups[1] then return '' end
      local entry = { pack(TALLY, TALLY_HEAD, PAIR_SIZE * (1 + #t.groups), t.ends, t.generation) }
      for _, group in ipairs(t.groups) do entry[#entry + 1] = pack(PAIR, group[1], group[2]) end
      return table.concat(entry)
    end
  end
end
