-- What is owed is taken from what is left; no limit gives more than it has.
local owed = { sunpack('<' .. string.rep('d', limits), ARGV[4]) }
local i = 0
p, o = 10, results
for t = 1, tiers do
  local end_ = p + 7 * r[p + 1]
  for q = p + 7, end_, 7 do
    i = i + 1
    if r[q + 1] > 0 and owed[i] > 0 then
      local cost = r[q + 3]
      if owed[i] < cost / r[q + 2] then cost = owed[i] * r[q + 2] end
      r[o + 1] = r[o + 1] > cost and r[o + 1] - cost or 0
      r[p + 2] = 1
    end
    o = o + 2
  end
  p = end_ + 7
end
local heal = false
