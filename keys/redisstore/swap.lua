-- Swap: KEYS[1] the document. ARGV: 1 header, 2 what has to be there, 3 what is
-- to be, 4 the TTL in milliseconds. The reply is the time and whether it is.
--
-- What is taken away is replaced by nothing that lives for a millisecond, here
-- and in clear.lua: so guardd's user needs no right to delete.

local now, deadline = sunpack('<dd', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local had = call('MGET', KEYS[1])[1] or '' -- MGET: another type is no error
if had ~= ARGV[2] then return spack('<BdB', 0, now, 0) end
call('SET', KEYS[1], ARGV[3], 'PX', ARGV[3] == '' and 1 or ARGV[4])
return spack('<BdB', 0, now, 1)
