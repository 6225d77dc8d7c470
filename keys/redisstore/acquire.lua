-- Acquire: KEYS the sets, of members that expire at their score. ARGV: 1 header
-- (time, deadline), 2 the ID, 3 '<ddd' of each set: cap, life, time to live. The
-- reply is the time, whether the place is given, whether it was there, and how
-- many of each set are occupied.

local now, deadline = sunpack('<dd', ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local id, whole = ARGV[2], '%d'
local used, free, mine = {}, true, true
for i = 1, #KEYS do
  local key = KEYS[i]
  local cap, life = sunpack('<dd', ARGV[3], 24 * i - 23)
  local gone = redis.pcall('ZREMRANGEBYSCORE', key, '-inf', whole:format(now))
  if type(gone) == 'table' and gone.err then
    call('DEL', key) -- another type counts as nothing
  else -- one that would outlive its life was given before the clock stepped back
    for _, far in ipairs(call('ZRANGEBYSCORE', key, '(' .. whole:format(now + life), '+inf')) do
      call('ZADD', key, whole:format(now + life), far)
    end
  end
  used[i] = call('ZCARD', key)
  if not call('ZSCORE', key, id) then
    mine = false
    if used[i] >= cap then free = false end
  end
end

local let = free or mine
for i = 1, #KEYS do
  if let then
    local _, life, ttl = sunpack('<ddd', ARGV[3], 24 * i - 23)
    if ttl > life then ttl = life end
    used[i] = used[i] + call('ZADD', KEYS[i], whole:format(now + ttl), id)
    local ms = (life + 60000000) / 1000
    call('PEXPIRE', KEYS[i], whole:format(ms - ms % 1 + 1))
  end
  used[i] = spack('<d', used[i])
end
return spack('<BdBB', 0, now, let and 1 or 0, mine and 1 or 0) .. table.concat(used)
