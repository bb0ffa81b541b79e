if not sign then
-- Any call at all: a sign and what follows it, or an array.
local function decide(lane, times)
  if server_now > late then return '<', '' end
  local key, now, ahead, shortest = all_keys[first], server_now, server_now + back, 0
  if lane >= INJECTED then
    -- The time to judge by comes with the call; the server's says nothing about the life of keys.
    lane, now, ahead, shortest = lane - INJECTED, back, 2 * MAX, INJECTED_LIFE
  end
  -- Those of what is held were taken already.
  if lane >= HOLD_LANE and lane <= RELEASE_LANE then lane = GENERAL_LANE end
