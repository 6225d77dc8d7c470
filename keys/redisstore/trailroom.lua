-- Trail: who has rows, and how much room all rows take. KEYS: 1 a hash of bytes
-- by segment, 2 up to when rows were dropped ('<d'), 3... a set of callers for
-- each segment of the window, oldest first. ARGV: 1 the oldest segment, 2 the room,
-- 3 the TTL in ms, 4 a segment's microseconds, 5 what a caller takes in a set, 6
-- pairs '<dd' of segment and bytes to add, 7... pairs of segment and caller to add.
-- Where more is taken than there is room for, callers are taken out of the oldest
-- segment that has any, for whoever asks to drop their rows: the reply is '<d' of
-- that segment (0: there is room), and 16 bytes for each caller.

local call, spack, sunpack = redis.call, struct.pack, struct.unpack
local oldest, room = tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = oldest + #KEYS - 3
local function within(s) return s < oldest and oldest or s > newest and newest or s end
local function key(s) return KEYS[3 + s - oldest] end

local taken = redis.pcall('HGETALL', KEYS[1])
if taken.err then
  call('DEL', KEYS[1])
  taken = {}
end
local bytes = {}
for i = 1, #taken, 2 do
  local s = tonumber(taken[i])
  if s and s >= oldest and s <= newest then
    bytes[s] = tonumber(taken[i + 1])
  else
    call('HDEL', KEYS[1], taken[i])
  end
end

local changed = {}
local function add(s, n)
  bytes[s] = math.max((bytes[s] or 0) + n, 0)
  changed[s] = true
end
for at = 1, #ARGV[6], 16 do
  local s, n = sunpack('<dd', ARGV[6], at)
  if s >= oldest then add(within(s), n) end
end
for i = 7, #ARGV, 2 do
  local s = within(tonumber(ARGV[i]))
  local new = redis.pcall('SADD', key(s), ARGV[i + 1])
  if type(new) ~= 'number' then
    call('DEL', key(s))
    new = call('SADD', key(s), ARGV[i + 1])
  end
  call('PEXPIRE', key(s), ARGV[3])
  add(s, new * ARGV[5])
end

local all = 0
for _, n in pairs(bytes) do all = all + n end
local reply = spack('<d', 0)
if all > room then
  for s = oldest, newest do
    local callers = bytes[s] and redis.pcall('SPOP', key(s), 200) or {}
    if #callers > 0 then
      for i = 1, #callers do callers[i] = string.sub(callers[i] .. string.rep('\0', 16), 1, 16) end
      call('SET', KEYS[2], spack('<d', (s + 1) * ARGV[4]), 'PX', ARGV[3])
      add(s, -#callers * ARGV[5])
      reply = spack('<d', s) .. table.concat(callers)
      break
    end
    if bytes[s] then -- nobody is left who could have them
      bytes[s] = 0
      changed[s] = true
    end
  end
end

for s in pairs(changed) do
  if bytes[s] > 0 then
    call('HSET', KEYS[1], string.format('%d', s), string.format('%d', bytes[s]))
  else
    call('HDEL', KEYS[1], string.format('%d', s))
  end
end
call('PEXPIRE', KEYS[1], ARGV[3])
return reply
