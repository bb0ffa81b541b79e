-- Rules for counting the valid ids of requests: groups of ids that expire by a time, in one key of the
-- subject.

-- Reads the groups that have not ended.
-- in   counts: the value of the key; now in µs
-- out  groups: tables of an end and a number; live: the sum of all
function READ_IDS(counts, now, groups, live)
  groups, live = {}, 0
  -- An invalid value, or an end later than any id can have, counts for nothing.
  if type(counts) == 'string' and #counts % IDS_SIZE == 0 and #counts <= IDS_GROUPS * IDS_SIZE then
    for place = 1, #counts, IDS_SIZE do
      local ends, ids = unpack(IDS, counts, place)
      if ends > now and ends <= now + IDS_LONGEST then
        groups[#groups + 1], live = { ends, ids }, live + ids
      end
    end
  end
end

-- Counts an id in the earliest group that ends after it, unless that is late and another group is possible.
-- in   groups, ends and life in µs
-- out  groups, last_end: the last end of all groups
function COUNT_ID(groups, ends, life, last_end)
  local latest, group, last = ends + math.floor(life / 4), nil, nil
  for index = 1, #groups do
    local each = groups[index]
    if each[1] >= ends and (not group or each[1] < group[1]) then group = each end
    if not last or each[1] > last[1] then last = each end
  end
  if (not group or group[1] > latest) and #groups < IDS_GROUPS then
    group = { latest, 0 }
    groups[#groups + 1] = group
  elseif not group then
    group, last[1] = last, latest
  end
  group[2] = group[2] + 1
  last_end = last and last[1] > group[1] and last[1] or group[1]
end

-- Makes the value of the key.
-- in   groups
-- out  counts
function WRITE_IDS(groups, counts)
  counts = ''
  for index = 1, #groups do counts = counts .. pack(IDS, groups[index][1], groups[index][2]) end
end
