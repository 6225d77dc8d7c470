-- What all scripts begin with, and the arithmetic of buckets: keys/bucket.go
-- and keys/rules.go in doubles.
--
-- Every number is a whole double of at most 2^53, so nothing is ever rounded,
-- and none is made into text but by '%d' (tostring keeps 14 digits). Lua's
-- x % y is exact in this range, so (x - x % y) / y is the whole quotient.

local call, sunpack, spack, sub = redis.call, struct.unpack, struct.pack, string.sub

-- A record of one whole double, or nil.
local function one(v)
  if v and #v == 8 then
    local x = struct.unpack('<d', v)
    if x % 1 == 0 and x <= 9007199254740992 and x >= -9007199254740992 then return x end
  end
end

-- The rest is seldom needed, and making a function costs as much as running it
-- (each local of the script that it uses, too): they are made when the first is
-- asked for.
local made
local function arithmetic()
  if made then return made end
  local A = {}
  made = A

  -- a x b / c, rounded up or down, for 0 <= a <= c and 0 <= b. The product has
  -- up to 106 bits: shift and subtract, compared so that no sum passes c.
  function A.mulDiv(a, b, c, up)
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
  function A.sameRatio(a, b, c, d)
    local x, y = a, b
    while y > 0 do x, y = y, x % y end
    local v, w = c, d
    while w > 0 do v, w = w, v % w end
    return a / x == c / v and b / x == d / v
  end

  function A.ceilDiv(a, b)
    local rem = a % b
    if rem > 0 then return (a - rem) / b + 1 end
    return a / b
  end

  -- Limit.Spent without the time: spent of from, when the capacity is units.
  function A.rescale(spent, from, units)
    if spent >= from then return units end
    return A.mulDiv(spent, units, from, true)
  end

  -- Limit.Back: what tokens of an older limit still cost now. passed x count
  -- is only compared where it may leave the exact range: rounding is monotone,
  -- so there it is above the tokens for certain.
  function A.stillCosts(units, count, oldCapacity, oldCount, oldPeriod, passed, tokens)
    local back, oldUnits = passed * oldCount, oldCapacity * oldPeriod
    local cost = tokens * oldPeriod
    if cost > oldUnits then cost = oldUnits end
    if back >= cost or not A.sameRatio(oldUnits, oldCount, units, count) then return 0 end
    return A.mulDiv(cost - back, units, oldUnits, false)
  end

  -- Threshold.Units, or -1 for never and -2 for empty.
  function A.threshold(t, units)
    if t == 65535 then return -1 end
    if t == 65534 then return -2 end
    local rem = units % 10000
    local m = rem * t
    return (units - rem) / 10000 * t + (m - m % 10000) / 10000
  end

  -- A record of two whole doubles, or nil.
  function A.two(v)
    if v and #v == 16 then
      local x, y = one(string.sub(v, 1, 8)), one(string.sub(v, 9))
      if x and y then return x, y end
    end
  end

  -- decodeK.
  function A.learned(v, now)
    local k, till = A.two(v)
    if not k or now >= till or k < 1 then return 1 end
    return k > 40 and 40 or k
  end

  -- State: the posture in force, and the baseline if one is learned.
  function A.state(v, now)
    if #v ~= 64 then return 0 end
    local x = {}
    for i = 1, 8 do
      x[i] = one(string.sub(v, 8 * i - 7, 8 * i))
      if not x[i] then return 0 end
    end
    local p, till, pin, pinTill, capacity, count, period = unpack(x)
    if p < 0 or p > 3 or pin < 0 or pin > 3 then return 0 end
    p = now < pinTill and pin or now < till and p or 0
    local most = 70368744177664 -- keys.MaxBaseline
    if capacity >= 1 and count >= 1 and period >= 1 and capacity * period <= most and count <= most then
      return p, capacity, count, period
    end
    return p
  end

  -- Rules.Whole for the limits from q to last, whose thresholds begin after at
  -- in T. div 0 means that they are not counted; capacity is nil or a baseline.
  function A.scale(r, q, last, T, at, k, div, capacity, count, period)
    for q = q, last, 7 do
      if capacity then
        r[q + 1], r[q + 2], r[q + 3] = count, period, capacity * period
        capacity = nil
      end
      if div == 0 then
        r[q + 1] = -r[q + 1]
      elseif r[q + 1] > 0 then
        local wide = r[q + 2] * div
        local units = A.ceilDiv(r[q + 3] / r[q + 2], div) * k * wide
        r[q + 1], r[q + 2], r[q + 3] = r[q + 1] * k, wide, units
        r[q + 4], r[q + 5], r[q + 6] = A.threshold(T[at + 1], units), A.threshold(T[at + 2], units), A.threshold(T[at + 3], units)
      end
      at = at + 3
    end
  end

  -- The cell of a limit that is not where it was: spent, units and, if it was
  -- kept for others, its time; or nil.
  function A.find(v, id)
    local own
    for at = 9, #v, 18 do
      local i, spent, units = struct.unpack('<I4I7I7', v, at)
      if i == id then return spent, units, own end
      own = i == 0 and spent or nil
    end
  end

  -- Bucket.keep: the cells of v to be kept for others beside those of tier p.
  function A.kept(v, r, p)
    local known, out, n, own = {}, '', 0, nil
    for q = p + 7, p + 7 * r[p + 1], 7 do
      if r[q + 1] > 0 then known[r[q]] = true end
    end
    for at = 9, #v, 18 do
      local id, spent, units = struct.unpack('<I4I7I7', v, at)
      if id == 0 then
        own = spent
      else
        local stamp = own or r[p + 6]
        own = nil
        if stamp > r[p + 3] then stamp = r[p + 3] end -- a clock that was mended is mended for all
        if n < 8 and spent > 0 and not known[id] and r[p + 3] - stamp < 2592000000000 then
          n = n + 1
          out = out .. struct.pack('<I4I7I7I4I7I7', 0, stamp, 0, id, spent, units)
        end
      end
    end
    return out
  end

  -- Sets a mark that bears its end of life, till; the TTL only tidies up.
  function A.mark(key, value, till, now)
    local ms = (till > now and till - now + 60000000 or 60000000) / 1000
    redis.call('SET', key, value, 'PX', string.format('%d', ms - ms % 1 + 1))
  end

  return A
end
