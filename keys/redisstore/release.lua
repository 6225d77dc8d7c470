-- Release: KEYS the sets, ARGV: 1 header (time, deadline), 2 the ID. The reply is
-- the time and whether any place was still the ID's.

local now, deadline = sunpack('<dd', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local freed = 0
for i = 1, #KEYS do
  local expires = redis.pcall('ZSCORE', KEYS[i], ARGV[2])
  if type(expires) == 'string' then -- else there is none, or another type
    if tonumber(expires) > now then freed = 1 end
    call('ZREM', KEYS[i], ARGV[2])
  end
end
return spack('<BdB', 0, now, freed)
