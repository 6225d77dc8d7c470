-- What the attempt still costs goes back to the limits that it took from: six
-- doubles each, the slots of tier, limit and result in r, and the limit as it
-- was, capacity, count, period.
local gave = 0
local took = { sunpack('<' .. string.rep('d', #ARGV[4] / 8), ARGV[4]) }
for x = 1, #took - 6, 6 do
  local p, q, left = took[x], took[x + 1], took[x + 2] + 1
  -- What was counted before the attempt is not the one it took from.
  if (own and own[q] or r[p + 6]) >= stamp and r[p + 6] > 0 and r[q + 1] > 0 then
    local back = arithmetic().stillCosts(r[q + 3], r[q + 1], took[x + 3], took[x + 4], took[x + 5], now > stamp and now - stamp or 0, 1)
    if back > r[q + 3] - r[left] then back = r[q + 3] - r[left] end
    if back > 0 then
      r[left] = r[left] + back
      gave = gave + 1
      r[p + 2] = 2
    end
  end
end
-- Only those that got something are written.
p = 10
for t = 1, tiers do
  r[p + 2] = r[p + 2] == 2 and 1 or 0
  p = p + 7 + 7 * r[p + 1]
end
local heal = false
