if several then
  local is_fine
  is_fine, sign, body = pcall(answer, lane, times, present)
  -- What goes wrong with one call is none of the others' business.
  if not is_fine and type(sign) ~= 'table' then sign = { err = tostring(sign) } end
else
  sign, body = answer(lane, times, present)
end
end

if not several then
  if type(sign) == 'table' then return sign end
  return tag .. clock[1] .. ' ' .. clock[2] .. sign .. body
end
if type(sign) == 'table' then
  others = others or { false }
  others[#others + 1] = sign
  several[size + 1] = '#'
  size = size + 1
else
  several[size + 1], several[size + 2], several[size + 3] = sign, #body == BUCKET_SIZE and BUCKET_LENGTH
    or pack(WORD_LENGTH, #body), body
  size = size + 3
end
first = first + keys
end
end

several = table.concat(several)
if others then others[1] = several end
return others or several
