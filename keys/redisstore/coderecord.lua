-- What is stored about an account's codes (keys/codes_judge.go): '<dddddddd'
-- serial, sent, until, nth, when its delivery was tried, three times of sending
-- again, then '<d' for each of the latest serials. A value of another length counts as missing.

local window = 86400000000 -- keys.CodeWindow
local delivered = -1

local function recent(t, now) return now - t < window and t - now <= window end

local function readCode(v)
  local r = { serial = 0, sent = 0, till = 0, nth = 0, tried = 0, again = { 0, 0, 0 }, sends = {} }
  if v and #v >= 64 and #v <= 192 and #v % 8 == 0 then
    r.serial, r.sent, r.till, r.nth, r.tried, r.again[1], r.again[2], r.again[3] = sunpack('<dddddddd', v)
    for at = 65, #v, 8 do r.sends[#r.sends + 1] = sunpack('<d', v, at) end
  end
  return r
end

local function lives(r, now) return now < r.till and recent(r.sent, now) end

local function keepCode(key, r, now)
  local value = spack('<dddddddd', r.serial, r.sent, r.till, r.nth, r.tried, r.again[1], r.again[2], r.again[3])
  for i = 1, #r.sends do value = value .. spack('<d', r.sends[i]) end
  arithmetic().mark(key, value, math.max(r.serial, now) + window, now)
end

local function clock(now)
  if now > 0 then return now end
  local t = call('TIME')
  return t[1] * 1000000 + t[2]
end
