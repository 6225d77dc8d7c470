-- Beat: KEYS[1] holds '<c8d' for each instance: its name and the time of its
-- last heartbeat. ARGV: 1 now (0: Redis's clock), deadline and TTL as '<ddd', 2
-- the instance. A TTL of 0 takes the instance away. The reply is the time and how
-- many live.

local now, deadline, ttl = sunpack('<ddd', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v, kept, live = call('MGET', KEYS[1])[1] or '', {}, 0 -- MGET: another type is no error
for at = 1, #v - 15, 16 do
  local instance, beat = sunpack('<c8d', v, at)
  -- Those ahead of now are of another server's clock, and would live for ever.
  if instance ~= ARGV[2] and (ttl == 0 or beat > now - ttl and beat <= now + ttl) then
    live = live + 1
    kept[live] = sub(v, at, at + 15)
  end
end
if ttl > 0 then
  live = live + 1
  kept[live] = ARGV[2] .. spack('<d', now)
end
-- One that leaves does not know how long the others live.
local ms = ttl > 0 and (ttl - ttl % 1000) / 1000 + 1 or call('PTTL', KEYS[1])
if ms < 1 then ms = 1 end
call('SET', KEYS[1], table.concat(kept), 'PX', string.format('%d', ms))
return spack('<Bdd', 0, now, live)
