-- Trail: drops a caller's rows of a segment. KEYS: 1 the list of its sums, 2 that
-- of refusals. ARGV: 1 the time '<d' at which the segment ends, 2 what a list takes
-- beside its rows, 3 what a row takes beside its bytes. The reply is '<d', the bytes that were dropped.

local call, spack, sunpack = redis.call, struct.pack, struct.unpack
local upTo, freed = sunpack('<d', ARGV[1]), 0

local rows = redis.pcall('LRANGE', KEYS[1], 0, -1)
if not rows.err and #rows > 0 then
  freed = tonumber(ARGV[2])
  for i = 1, #rows do freed = freed + #rows[i] + ARGV[3] end
end
call('DEL', KEYS[1])

local old = redis.pcall('LRANGE', KEYS[2], 0, -1)
if old.err then
  call('DEL', KEYS[2])
else
  for i = 1, #old do
    if #old[i] >= 8 and sunpack('<d', old[i]) >= upTo then break end
    call('LPOP', KEYS[2])
    freed = freed + #old[i] + ARGV[3]
    if i == #old then freed = freed + ARGV[2] end
  end
end
return spack('<d', freed)
