-- keys.Settlement.adjust. Each tier has one limit.
if not expired and not done then
  arithmetic().mark(KEYS[1], '1', expires, now)
  local took = { sunpack('<' .. string.rep('d', 5 * tiers), ARGV[4]) }
  p, o = 10, results
  for t = 1, tiers do
    local q, x, left = p + 7, 5 * t - 4, r[o + 1]
    local units, period, more = r[q + 3], r[q + 2], took[x + 1] - took[x]
    if more > 0 then
      local cost = more < units / period and more * period or units
      left = left > cost and left - cost or 0
    elseif more < 0 and r[p + 6] > 0 and (own and own[q] or r[p + 6]) >= stamp then
      if whole == 1 then
        local most = took[x + 2] * took[x + 4]
        left = left + arithmetic().mulDiv(-more < took[x + 2] and -more * took[x + 4] or most, units, most, false)
      else
        left = left + arithmetic().stillCosts(units, r[q + 1], took[x + 2], took[x + 3], took[x + 4], now > stamp and now - stamp or 0, -more)
      end
      if left > units then left = units end
    end
    if left ~= r[o + 1] then r[o + 1], r[p + 2] = left, 1 end
    p, o = p + 14, o + 2
  end
else
  for t = 1, tiers do r[14 * t - 2] = 0 end -- nothing is written
end
local heal = false
