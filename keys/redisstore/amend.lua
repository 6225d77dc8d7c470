-- Settle of a plan's take: what was taken by an estimate, corrected once. KEYS:
-- 1 the mark, then the buckets, one a tier. ARGV: 1 header, 2 rules, 3 format of
-- the rules, 4 five doubles a tier: tokens taken, tokens it costs after all, and
-- the limit it was taken of, capacity, count, period.

local now, deadline, stamp, expires, whole = sunpack('<ddddd', ARGV[1])
local first, iState, iK1, iK2 = 2, 0, 0, 0

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS))
local expired, done = now >= expires, v[1] and true or false
