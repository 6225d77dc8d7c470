-- Trail: appends rows to one list. KEYS[1] the list: of each row its time '<d' and
-- its data. ARGV: 1 the TTL in ms, 2 the most rows, 3 what a list takes beside
-- them, 4 what a row takes beside its bytes, 5... the rows. The reply is pairs '<dd': 0 and the bytes that were added,
-- then time and bytes of each row that had to go.

local call, spack, sunpack = redis.call, struct.pack, struct.unpack
local key, most, list, each = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local before = redis.pcall('LLEN', key)
if type(before) ~= 'number' then -- of a wrong type: counts as missing
  call('DEL', key)
  before = 0
end
local added = before == 0 and list or 0
for i = 5, #ARGV do added = added + #ARGV[i] + each end
call('RPUSH', key, unpack(ARGV, 5))
call('PEXPIRE', key, ARGV[1])

local reply = { spack('<dd', 0, added) }
for _ = 1, before + #ARGV - 4 - most do
  local row = call('LPOP', key)
  reply[#reply + 1] = spack('<dd', #row >= 8 and sunpack('<d', row) or 0, #row + each)
end
return table.concat(reply)
