-- Every bucket, brought to now. Before it come: now, v (what is stored under
-- KEYS; v[0], nil, stands for marks that do not apply), first (of the buckets in
-- KEYS), iState, iK1, iK2 (of those marks). ARGV: 2 rules, 3 their format.
--
-- r is the rules as keys/wire.go packs them, and the working memory:
--   1 shape   2 tiers   3 limits   4 delay base   5 delay max
--   6-9 effect of each posture: floor + 4 (not counted) + 8 x divisor
--   then each tier p: p role   p+1 limits   p+2 to be written   p+3 stamp
--     p+4 distrust   p+5 1 rescaled, 2 maybe some of others   p+6 stamp as it
--     was, 0: nothing stored
--     and its limits q: q id   q+1 count (not above 0: not counted)
--       q+2 period   q+3 units   q+4 q+5 q+6 delay, captcha, verify begin at so
--       many units left (-1 never, -2 less than needed)
--   then each limit's result o: o looked 1 + took 2 + 4 x rung   o+1 units left
--   and at the end the position of the thresholds, three a limit, which are
--   read only when limits scale.
-- Roles: 1 skip where familiar, and at most one of 2 scale by address, 4 by
-- network, 8 by posture, 16 a device's own, 32 its account's shared.
--
-- A stored tier is '<BI7' (2 + distrust, stamp) and '<I4I7I7' (id, spent,
-- units) a limit: 44 bytes for two limits, the most that Redis keeps in one
-- allocation with its header. What is kept for others (keys/judge.go, Bucket.keep)
-- follows: a limit that bears its time, with the id 0, which none has, before
-- each. Anything else counts as missing.

local r = { sunpack(ARGV[3], ARGV[2]) }
local tiers, limits, last = r[2], r[3], #r - 1
local results = last + 1 - 2 * limits

local posture, capacity, baseCount, basePeriod = 0, nil, nil, nil
if v[iState] then posture, capacity, baseCount, basePeriod = arithmetic().state(v[iState], now) end
local effect = r[6 + posture]
local k1 = v[iK1] and arithmetic().learned(v[iK1], now) or 1
local k2 = v[iK2] and arithmetic().learned(v[iK2], now) or 1

local p, o, T, own = 10, results, nil, nil -- own: the times of what was kept for others, by limit
for t = first, first + tiers - 1 do
  local role, end_ = r[p], p + 7 * r[p + 1]
  if role >= 2 and role < 16 then
    local k, div, baseline = 1, 1, nil
    if role >= 8 then
      div = effect % 8 >= 4 and 0 or (effect - effect % 8) / 8
      baseline = capacity
    elseif role >= 4 then
      k = k2
    else
      k = k1
    end
    if k ~= 1 or div ~= 1 or baseline then
      T = T or { sunpack('<' .. string.rep('HHH', limits), ARGV[2], r[last + 1]) }
      arithmetic().scale(r, p + 7, end_, T, (o - results) / 2 * 3, k, div, baseline, baseCount, basePeriod)
    end
  end

  local value, passed = v[t], 0
  local head, stamp, id, spent, from, at
  if value then
    if #value >= 26 and #value <= 584 and (#value - 8) % 18 == 0 then
      head, stamp, id, spent, from, at = sunpack('<BI7I4I7I7', value)
    end
    if head == 2 or head == 3 then
      r[p + 4], r[p + 6] = head - 2, stamp
    else
      value, id = nil, nil
    end
  end
  if not value then
    stamp = now
  elseif stamp <= now then
    passed = now - stamp
    stamp = now
  else
    -- The clock stepped back, or is broken (keys.elapsed).
    local longest = 0
    for q = p + 7, end_, 7 do
      if r[q + 1] > 0 then
        local full = arithmetic().ceilDiv(r[q + 3], r[q + 1])
        if full > longest then longest = full end
      end
    end
    if stamp - now > longest then
      stamp = now
      if longest > 0 then r[p + 2] = 1 end
    end
  end
  r[p + 3] = stamp

  for q = p + 7, end_, 7 do
    local count = r[q + 1]
    if count > 0 then
      local left = r[q + 3]
      if value then
        local s, u, since = spent, from, passed
        if id ~= r[q] then
          local was
          id, r[p + 5] = nil, 2
          s, u, was = arithmetic().find(value, r[q])
          if was then
            since = stamp > was and stamp - was or 0
            own = own or {}
            own[q] = was
          end
        end
        if s then
          if u ~= left then
            s = arithmetic().rescale(s, u, left)
            if r[p + 5] == 0 then r[p + 5] = 1 end
          elseif s > left then
            s = left
          end
          -- Limit.Spent: only compared where it may leave the exact range, and
          -- rounding is monotone: there it is above what is spent for certain.
          local back = since * count
          if back < s then left = left - s + back end
        end
      end
      r[o], r[o + 1] = 1, left
    elseif value then
      id, r[p + 5] = nil, 2
    end
    o = o + 2
    if id and q < end_ then
      if at < #value then
        id, spent, from, at = sunpack('<I4I7I7', value, at)
      else
        id = nil
      end
    end
  end
  if value and #value ~= 8 + 18 * r[p + 1] then r[p + 5] = 2 end
  p = end_ + 7
end
