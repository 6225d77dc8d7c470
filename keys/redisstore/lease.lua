-- Lease: tokens in advance. KEYS: 1 the bucket. ARGV: 1 header, 2 rules, 3 format
-- of the rules, which are one tier of one limit.

local now, deadline, need, want = sunpack('<dddd', ARGV[1])
local first, iState, iK1, iK2 = 1, 0, 0, 0

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS))
