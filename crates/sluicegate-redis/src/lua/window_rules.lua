-- Rules of windows and of the cells of a sliding counter.

-- Says when the window begins that an instant is in, if its length is fixed.
-- in   at in µs; anchor; length in µs; then_start: of the window that is stored, or nil
-- out  start in µs
function WINDOW_START(at, anchor, length, then_start, start)
  start = at
  if anchor == ALIGNED then
    start = at - at % length
  elseif then_start and at < then_start + length then
    start = then_start
  end
end

-- Brings two cells to an instant.
-- in   at and length in µs; start: of the current cell; previous and current: what they count
-- out  start, previous, current: at that instant
function STAND_CELLS(at, length, start, previous, current)
  local then_start = start
  start = at - at % length
  if start - then_start == length then
    previous, current = current, 0
  elseif start ~= then_start then
    previous, current = 0, 0
  end
end

-- Says whether a cost passes: the previous cell counts for as much of it as the window still covers.
-- in   cost, limit, previous, current; left: the steps left of the current cell, of so many
-- out  passes
function CELLS_PASS(cost, limit, previous, current, left, steps, passes)
  local room = limit - cost - current
  passes = room >= 0 and (previous == 0 or left <= math.floor(room * steps / previous))
end
