-- Revoke: KEYS[1] gets the stamp '<d', each later than the one before. ARGV: 1 the time
-- as '<d' (0: Redis's clock), 2 the TTL in milliseconds.

local now = sunpack('<d', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local was = one(call('MGET', KEYS[1])[1]) or 0 -- MGET: another type is no error
if was >= now then now = was + 1 end
local value = spack('<d', now)
call('SET', KEYS[1], value, 'PX', ARGV[2])
return value
