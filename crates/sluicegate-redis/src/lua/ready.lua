-- Sluicegate: does what every decision needs, and fails as a decision would.
--
-- in    KEYS[1]   a key of this installation that no limit uses
-- out   1

redis.call('TIME')
redis.call('SET', KEYS[1], '', 'PX', 1000)
return 1
