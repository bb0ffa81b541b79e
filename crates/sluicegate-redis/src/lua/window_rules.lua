-- Rules of windows and of the cells of a sliding counter.

-- Returns the start of an instant's window, if its length is fixed.
-- in   at in µs; anchor; length in µs; then_start: of the stored window, or nil
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
-- in   at and length in µs; start: of the current cell; previous and current: their counts
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

-- Returns whether a cost passes: the previous cell counts in proportion to the part that the window still
-- covers.
-- in   cost, limit, previous, current; left: remaining steps of the current cell, of `steps`
-- out  passes
function CELLS_PASS(cost, limit, previous, current, left, steps, passes)
  local room = limit - cost - current
  passes = room >= 0 and (previous == 0 or left <= math.floor(room * steps / previous))
end
