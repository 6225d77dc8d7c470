-- Held and Clear: KEYS are buckets of one slot. ARGV[1] the header. The reply is
-- the time and how many there were.

local now, deadline, clear = sunpack('<ddB', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local n, v = 0, call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if v[i] and #v[i] >= 8 then
    n = n + 1
    if clear == 1 then call('SET', KEYS[i], '', 'PX', 1) end
  end
end
return spack('<Bdd', 0, now, n)
