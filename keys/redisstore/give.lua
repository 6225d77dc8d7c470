-- Give: the outcome of one attempt, once, and what it gives back. KEYS are the
-- marks that the header points at and then the buckets that get something back.
-- ARGV: 1 header, 2 what was taken, and unless that is empty 3 rules, 4 format
-- of the rules. The reply is one string; wire.go has the layouts.

local now, deadline, stamp, expires, outcome, iOutcome, iFailures, iPlace, iState, iK1, iK2 =
  sunpack('<ddddBBBBBBB', ARGV[1])

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<BdBBBBB', 1, now, 0, 0, 0, 0, 0) end -- late
if now >= expires then return spack('<BdBBBBB', 0, now, 1, 0, 0, 0, 0) end

local v = call('MGET', unpack(KEYS)) -- v[0], nil, stands for marks that do not apply

-- Outcomes: 1 success, 2 failure, 3 unknown account, 4 second factor pending.
local prior = two(v[iOutcome]) or 0
if prior > 0 and not (prior == 4 and outcome <= 2) then
  return spack('<BdBBBBB', 0, now, 0, 0, prior, 0, 0) -- duplicate
end
mark(KEYS[iOutcome], spack('<dd', outcome, expires), expires, now)

-- The account's last failures: at most 10 times, oldest first, within a day.
local failures = 0
if iFailures > 0 then
  local old, at, from, n = v[iFailures], {}, 1, 0
  if old and #old % 8 == 0 and #old <= 80 then
    n = #old / 8
    at = { sunpack('<' .. rep('d', n), old) }
  end
  if outcome == 2 or outcome == 3 then
    n = n + 1
    at[n] = now
    if n > 10 then from = 2 end
    mark(KEYS[iFailures], spack('<' .. rep('d', n - from + 1), unpack(at, from, n)), now + 86400000000, now)
  end
  for i = from, n do
    if now - at[i] < 86400000000 then failures = failures + 1 end
  end
end

-- Giving back: limit i of tier p in the bucket KEYS[key], which took one token
-- when the limit was capacity, count, period.
local gave = 0
if prior == 0 and #ARGV[2] > 0 then
  local r = { sunpack(ARGV[4], ARGV[3]) }
  local took = { sunpack('<' .. rep('d', #ARGV[2] / 8), ARGV[2]) }
  local last, since = #took - 1, now > stamp and now - stamp or 0
  facts(r, v[iState], v[iK1], v[iK2], now)
  local x = 1
  while x < last do
    local key, p, o = took[x], took[x + 1], took[x + 2]
    local role = r[p]
    if role >= 2 and role < 16 then scale(r, p, role) end
    local _, was = settle(r, p, o, v[key], now)
    local some = false
    repeat
      local i = took[x + 3]
      local q, left = p + 6 + 11 * i, o + 2 * i + 1
      -- One whose stamp is before the attempt's is not the one it took from.
      if was and was >= stamp and r[q + 2] > 0 then
        local back = stillCosts(r[q + 4], r[q + 2], took[x + 4], took[x + 5], took[x + 6], since)
        if back > r[q + 4] - r[left] then back = r[q + 4] - r[left] end
        if back > 0 then
          r[left] = r[left] + back
          gave = gave + 1
          some = true
        end
      end
      x = x + 7
    until took[x + 1] ~= p
    if some then store(r, p, o, KEYS[key], now) end
  end
end

-- The familiar place bears the attempt's time, and never goes back.
if outcome == 1 and iPlace > 0 and (one(v[iPlace]) or 0) < stamp then
  mark(KEYS[iPlace], spack('<d', stamp), (now > stamp and now or stamp) + 2592000000000, now)
end
return spack('<BdBBBBB', 0, now, 0, 1, prior, failures, gave)
