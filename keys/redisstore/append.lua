-- Append: KEYS[1] a stream. ARGV: 1 deadline and ttl as '<dd', 2 how many entries
-- stay, then the values. The reply is the time, and 1 where there was something
-- of another type, which goes: then nothing was appended.

local deadline, ttl = sunpack('<dd', ARGV[1])
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local function whole(ms) return string.format('%d', ms < 1 and 1 or ms - ms % 1) end
for i = 3, #ARGV do
  local id = redis.pcall('XADD', KEYS[1], '*', 'v', ARGV[i])
  if type(id) == 'table' then
    if i > 3 or not string.find(id.err, 'WRONGTYPE', 1, true) then return id end
    call('SET', KEYS[1], '', 'PX', 1)
    return spack('<BdB', 0, now, 1)
  end
end
if #ARGV > 2 then
  call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[2])
  call('XTRIM', KEYS[1], 'MINID', whole((now - ttl) / 1000)) -- an entry's id begins with its time
  call('PEXPIRE', KEYS[1], whole(ttl / 1000))
end
return spack('<BdB', 0, now, 0)
