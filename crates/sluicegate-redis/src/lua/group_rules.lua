-- Rules of groups, which count records by their end: tables of that time and a number, in the order of the
-- times.

-- Removes the groups that have ended.
-- in   groups, now in µs
-- out  groups
function LIVE_GROUPS(groups, now)
  if groups[1] and groups[1][1] <= now then
    local kept = {}
    for index = 1, #groups do
      if groups[index][1] > now then kept[#kept + 1] = groups[index] end
    end
    groups = kept
  end
end

-- Counts a record in the group with this end. If there are too many groups, counts it in one that ends later.
-- in   groups, none of which has ended; ends in µs; most: the largest number of groups
-- out  groups, group: the one that counts it
function COUNT_IN(groups, ends, most, group)
  local place = 1
  while groups[place] and groups[place][1] < ends do place = place + 1 end
  group = groups[place]
  if not (group and group[1] == ends) and #groups < most then
    group = { ends, 0 }
    table.insert(groups, place, group)
  elseif not group then
    group = groups[#groups]
    group[1] = ends
  end
  group[2] = group[2] + 1
end

-- Removes a record from the group with this end, if it exists.
-- in   groups, ends in µs
-- out  groups, is_counted: set if it is
function COUNT_OUT(groups, ends, is_counted)
  for index = 1, #groups do
    local group = groups[index]
    if group[1] == ends then
      group[2], is_counted = group[2] - 1, true
      if group[2] <= 0 then table.remove(groups, index) end
      break
    end
  end
end

-- Reads a tally: an entry that counts the records of a subject in such groups (tally.lua).
-- in   value, place
-- out  clean: whether it is one; last_end: the end of its use; generation, groups; after: start of the next entry
function READ_TALLY(value, place, clean, last_end, generation, groups, after)
  clean = #value - place >= TALLY_SIZE - 1
  if clean then
    local kind, length
    kind, length, last_end, generation, after = unpack(TALLY, value, place)
    local finish = place + LISTED_HEAD_SIZE + length
    clean = kind == TALLY_HEAD and finish <= #value + 1 and length % PAIR_SIZE == 0 and finish >= after
    groups = {}
    while clean and after < finish do
      local ends, number
      ends, number, after = unpack(PAIR, value, after)
      groups[#groups + 1] = { ends, number }
    end
  end
end

-- Counts the records that have not ended.
-- in   groups, now in µs
-- out  live
function LIVE_RECORDS(groups, now, live)
  live = 0
  for index = 1, #groups do
    if groups[index][1] > now then live = live + groups[index][2] end
  end
end

-- Makes the entry of a tally; an empty text if it is useless.
-- in   last_end and now in µs, generation, groups
-- out  entry
function WRITE_TALLY(last_end, now, generation, groups, entry)
  entry = ''
  if last_end > now and (generation > 0 or groups[1]) then
    entry = pack(TALLY, TALLY_HEAD, PAIR_SIZE * (1 + #groups), last_end, generation)
    for index = 1, #groups do entry = entry .. pack(PAIR, groups[index][1], groups[index][2]) end
  end
end
