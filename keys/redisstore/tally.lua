-- Tally: keys.tally. KEYS[1] holds '<ddd': when the window ends, how many are in
-- it, how many were in the one before. ARGV[1] the header.

local now, deadline, window = sunpack('<ddd', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local till, n, before = 0, 0, 0
local v = call('MGET', KEYS[1])[1] -- MGET: another type is no error
if v and #v == 24 then till, n, before = sunpack('<ddd', v) end
if n == 0 or till - now > 2 * window or now - till >= window then
  till, n, before = now + window, 1, 0 -- none, one of a broken clock, or one long over
elseif now >= till then
  till, n, before = now + window, 1, n
else
  n = n + 1
end
arithmetic().mark(KEYS[1], spack('<ddd', till, n, before), till + window, now)
return spack('<Bdddd', 0, now, n, before, window)
