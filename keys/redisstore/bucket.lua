-- The arithmetic of buckets: keys/bucket.go and keys/rules.go in doubles. Both
-- scripts, take.lua and give.lua, begin with this text.
--
-- Every number is a whole double of at most 2^53, so nothing is ever rounded,
-- and none is made into text but by '%d' (tostring keeps 14 digits). Lua's
-- x % y is exact in this range, so (x - x % y) / y is the whole quotient.
--
-- r is the rules as keys/wire.go packs them, and the working memory:
--   1 shape   2 tiers   3 limits   4 delay base   5 delay max
--   6-9 effect of each posture: floor + 4 (not counted) + 8 x divisor
--   10 effect in force   11 unused   12-14 baseline: capacity count period
--   15 k of the address   16 k of its network
--   then each tier p:
--     p role   p+1 limits   p+2 to be written   p+3 stamp   p+4 distrust
--     p+5 rescaled
--     then each of its limits q:
--       q id   q+1 capacity   q+2 count (not above 0: not counted)   q+3 period   q+4 units
--       q+5 q+6 q+7 delay, captcha, verify: begin at so many units left
--       (-1 never, -2 less than needed)   q+8 q+9 q+10 the same as thresholds
--   then each limit's result o: o looked 1 + took 2 + 4 x rung   o+1 units left
-- Roles: 1 skip where familiar, and at most one of 2 scale by address, 4 by
-- network, 8 by posture, 16 a device's own, 32 its account's shared.
--
-- A stored tier is '<BI7' (2 + distrust, stamp) and '<I4I7I7' (id, spent,
-- units) a limit: 44 bytes for two limits, the most that Redis keeps in one
-- allocation with its header. Anything else counts as missing.

local call, sunpack, spack = redis.call, struct.unpack, struct.pack
local rep, sub, byte, sformat = string.rep, string.sub, string.byte, string.format

-- a x b / c, rounded up or down, for 0 <= a <= c and 0 <= b. The product has
-- up to 106 bits: shift and subtract, compared so that no sum passes c.
local function mulDiv(a, b, c, up)
  if b == c then return a end
  local q, rem, bit = 0, 0, 1
  while bit <= b / 2 do bit = bit * 2 end
  while bit >= 1 do
    q = q + q
    if rem >= c - rem then
      rem = rem - (c - rem)
      q = q + 1
    else
      rem = rem + rem
    end
    if b >= bit then
      b = b - bit
      if rem >= c - a then
        rem = rem - (c - a)
        q = q + 1
      else
        rem = rem + a
      end
    end
    bit = bit / 2
  end
  if up and rem > 0 then return q + 1 end
  return q
end

-- a / b == c / d, for positive arguments: by their lowest terms.
local function sameRatio(a, b, c, d)
  local x, y = a, b
  while y > 0 do x, y = y, x % y end
  local v, w = c, d
  while w > 0 do v, w = w, v % w end
  return a / x == c / v and b / x == d / v
end

local function ceilDiv(a, b)
  local rem = a % b
  if rem > 0 then return (a - rem) / b + 1 end
  return a / b
end

-- Threshold.Units, or -1 and -2.
local function threshold(t, units)
  if t == 65535 then return -1 end
  if t == 65534 then return -2 end
  local rem = units % 10000
  local m = rem * t
  return (units - rem) / 10000 * t + (m - m % 10000) / 10000
end

-- Limit.Spent: what is spent of units now, when spent of from was spent and
-- passed has gone by. passed x count is only compared where it may leave the
-- exact range: rounding is monotone, so there it is above spent for certain.
local function spentNow(spent, from, units, count, passed)
  if spent >= from then
    spent = units
  elseif from ~= units then
    spent = mulDiv(spent, units, from, true)
  end
  local back = passed * count
  if back >= spent then return 0 end
  return spent - back
end

-- Limit.Back: what a token of an older limit still costs now.
local function stillCosts(units, count, oldCapacity, oldCount, oldPeriod, passed)
  local back, oldUnits = passed * oldCount, oldCapacity * oldPeriod
  if back >= oldPeriod or not sameRatio(oldUnits, oldCount, units, count) then return 0 end
  return mulDiv(oldPeriod - back, units, oldUnits, false)
end

local function whole(x) return x % 1 == 0 and x <= 9007199254740992 and x >= -9007199254740992 end

-- Records of one and two doubles, or nil.
local function one(v)
  if v and #v == 8 then
    local x = sunpack('<d', v)
    if whole(x) then return x end
  end
end

local function two(v)
  if v and #v == 16 then
    local x, y = sunpack('<dd', v)
    if whole(x) and whole(y) then return x, y end
  end
end

local function learned(v, now)
  local k, till = two(v)
  if not k or now >= till or k < 1 then return 1 end
  return k > 40 and 40 or k
end

-- Puts what limits depend on into r and returns the posture in force.
local function facts(r, state, k1, k2, now)
  local posture = 0
  if state and #state == 56 then
    local p, till, pin, pinTill, capacity, count, period = sunpack('<ddddddd', state)
    if p >= 0 and p <= 3 and pin >= 0 and pin <= 3 and whole(p) and whole(till) and whole(pin) and whole(pinTill)
      and whole(capacity) and whole(count) and whole(period) then
      posture = now < pinTill and pin or now < till and p or 0
      local units = capacity * period
      if capacity >= 1 and count >= 1 and period >= 1 and units <= 70368744177664
        and count <= 70368744177664 then -- keys.MaxBaseline
        r[12], r[13], r[14] = capacity, count, period
      end
    end
  end
  r[10] = r[6 + posture]
  if k1 then r[15] = learned(k1, now) end
  if k2 then r[16] = learned(k2, now) end
  return posture
end

-- Rules.Whole for every limit of a tier, whose role scales by one thing at most.
local function scale(r, p, role)
  local k, div, baseline = 1, 1, false
  if role >= 8 then
    local effect = r[10]
    div = effect % 8 >= 4 and 0 or (effect - effect % 8) / 8 -- 0: not counted
    baseline = r[13] > 0
  elseif role >= 4 then
    k = r[16]
  else
    k = r[15]
  end
  if k == 1 and div == 1 and not baseline then return end
  for q = p + 6, p + 11 * r[p + 1] - 5, 11 do
    if baseline and q == p + 6 then r[q + 1], r[q + 2], r[q + 3] = r[12], r[13], r[14] end
    if div == 0 then
      r[q + 2] = -r[q + 2]
    elseif r[q + 2] > 0 then
      r[q + 1] = ceilDiv(r[q + 1], div) * k
      r[q + 2] = r[q + 2] * k
      r[q + 3] = r[q + 3] * div
      local units = r[q + 1] * r[q + 3]
      r[q + 4] = units
      r[q + 5], r[q + 6], r[q + 7] = threshold(r[q + 8], units), threshold(r[q + 9], units), threshold(r[q + 10], units)
    end
  end
end

-- Where a limit's cell is in an unpacked bucket of m cells, or nil.
local function find(b, m, id)
  for c = 3, 3 * m, 3 do
    if b[c] == id then return c end
  end
end

-- Brings tier p, whose stored value is v, to now: results from o on, stamp and
-- the rest into the tier's own slots. Limits are those in force already. Returns
-- the slot after its results, and the stored stamp if there is one.
local function settle(r, p, o, v, now)
  local n, b, m, was = r[p + 1], nil, 0, nil
  local passed, stamp = 0, now
  if v then
    m = (#v - 8) / 18
    if m >= 1 and m <= 16 and m % 1 == 0 and (byte(v) == 2 or byte(v) == 3) then
      b = { sunpack('<BI7' .. rep('I4I7I7', m), v) }
      b[3 * m + 3] = nil -- unpack's last result is a position
      r[p + 4] = b[1] - 2
      was = b[2]
      stamp = was
      if stamp <= now then
        passed = now - stamp
        stamp = now
      else
        -- The clock stepped back, or is broken (keys.elapsed).
        local longest = 0
        for q = p + 6, p + 11 * n - 5, 11 do
          if r[q + 2] > 0 then
            local ttf = ceilDiv(r[q + 4], r[q + 2])
            if ttf > longest then longest = ttf end
          end
        end
        if stamp - now > longest then
          stamp = now
          if longest > 0 then r[p + 2] = 1 end
        end
      end
    end
  end
  r[p + 3] = stamp
  local c = 3
  for q = p + 6, p + 11 * n - 5, 11 do
    if r[q + 2] > 0 then
      local left = r[q + 4]
      local at = b and (b[c] == r[q] and c or find(b, m, r[q]))
      if at then
        local from = b[at + 2]
        if from ~= left then r[p + 5] = 1 end
        left = left - spentNow(b[at + 1], from, left, r[q + 2], passed)
      end
      r[o], r[o + 1] = 1, left
    end
    o = o + 2
    c = c + 3
  end
  return o, was
end

-- Milliseconds until tier p is full again, with slack; nil when none of its
-- limits is counted.
local function life(r, p, o, now)
  local longest
  for q = p + 6, p + 11 * r[p + 1] - 5, 11 do
    local count = r[q + 2]
    if count > 0 then
      local us = (r[q + 4] - r[o + 1]) / count
      if not longest or us > longest then longest = us end
    end
    o = o + 2
  end
  if not longest then return end
  local ms = (longest + r[p + 3] - now + 60000000) / 1000
  return ms - ms % 1 + 1
end

-- Stores tier p with what is left from o on.
local function store(r, p, o, key, now)
  local ms = life(r, p, o, now)
  if r[p + 5] == 1 then
    local had = call('PTTL', key) -- the longer of old and new time to full
    if had > ms then ms = had end
  end
  local out, m = { 2 + r[p + 4], r[p + 3] }, 2
  for q = p + 6, p + 11 * r[p + 1] - 5, 11 do
    if r[q + 2] > 0 then
      out[m + 1], out[m + 2], out[m + 3] = r[q], r[q + 4] - r[o + 1], r[q + 4]
      m = m + 3
    end
    o = o + 2
  end
  call('SET', key, spack('<BI7' .. rep('I4I7I7', (m - 2) / 3), unpack(out)), 'PX', sformat('%d', ms))
end

-- Sets a mark that bears its end of life, till; the TTL only tidies up.
local function mark(key, value, till, now)
  local ms = (till > now and till - now + 60000000 or 60000000) / 1000
  call('SET', key, value, 'PX', sformat('%d', ms - ms % 1 + 1))
end
