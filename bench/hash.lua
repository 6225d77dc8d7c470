-- The token bucket script that is met most often, here for all limits of one
-- key: a hash with tokens and time, numbers as text. ARGV: capacity and
-- refill per second of each limit. Takes one token of each or of none; the reply
-- is 1 or 0 and what is left.
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local n = #ARGV / 2
local fields = { 'at' }
for i = 1, n do fields[i + 1] = 'l' .. i end
local v = redis.call('HMGET', KEYS[1], unpack(fields))
local at = tonumber(v[1]) or now
local left, ok, full = {}, 1, 0
for i = 1, n do
  local capacity, rate = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  left[i] = math.min(capacity, (tonumber(v[i + 1]) or capacity) + math.max(0, now - at) * rate)
  if left[i] < 1 then ok = 0 end
  full = math.max(full, (capacity - left[i] + 1) / rate)
end
local reply = { ok }
if ok == 1 then
  local set = { 'at', now }
  for i = 1, n do
    left[i] = left[i] - 1
    set[2 * i + 1], set[2 * i + 2] = 'l' .. i, left[i]
  end
  redis.call('HSET', KEYS[1], unpack(set))
  redis.call('EXPIRE', KEYS[1], math.ceil(full))
end
for i = 1, n do reply[i + 1] = math.floor(left[i]) end
return reply
