-- Give: the outcome of one attempt, once. KEYS are the marks that the header
-- points at and then, if anything may be given back, the buckets, one a tier.
-- ARGV: 1 header, 2 rules, 3 format of the rules (both empty unless something
-- may be given back), 4 what was taken. The reply is one string; wire.go has all
-- layouts.

local now, deadline, stamp, expires, outcome, iOutcome, iFailures, iPlace, iWrong, iState, iK1, iK2, first =
  sunpack('<ddddBBBBBBBBB', ARGV[1])

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<BdBBBBB', 1, now, 0, 0, 0, 0, 0) end -- late
if now >= expires then return spack('<BdBBBBB', 0, now, 1, 0, 0, 0, 0) end

local v = call('MGET', unpack(KEYS)) -- v[0], nil, stands for marks that do not apply

-- Outcomes: 1 success, 2 failure, 3 unknown account, 4 second factor pending.
local prior = arithmetic().two(v[iOutcome]) or 0
if prior > 0 and not (prior == 4 and outcome <= 2) then
  return spack('<BdBBBBB', 0, now, 0, 0, prior, 0, 0) -- duplicate
end
arithmetic().mark(KEYS[iOutcome], spack('<dd', outcome, expires), expires, now)

-- The account's last failures: at most 10 times, oldest first, within a day.
local failures = 0
if iFailures > 0 then
  local old, at, from, n = v[iFailures], {}, 1, 0
  if old and #old % 8 == 0 and #old <= 80 then
    n = #old / 8
    at = { sunpack('<' .. string.rep('d', n), old) }
  end
  if outcome == 2 or outcome == 3 then
    n = n + 1
    at[n] = now
    if n > 10 then from = 2 end
    arithmetic().mark(KEYS[iFailures], spack('<' .. string.rep('d', n - from + 1), unpack(at, from, n)), now + 86400000000, now)
  end
  for i = from, n do
    if now - at[i] < 86400000000 then failures = failures + 1 end
  end
end

-- The familiar place bears the attempt's time, and never goes back.
if outcome == 1 and iPlace > 0 and (one(v[iPlace]) or 0) < stamp then
  arithmetic().mark(KEYS[iPlace], spack('<d', stamp), (now > stamp and now or stamp) + 2592000000000, now)
end

-- The account's wrong passwords, each with the time of the last attempt with it
-- (keys/wrong.go). The tags end the header.
if iWrong > 0 and (prior == 0 or outcome == 1) then
  local today, yesterday = sub(ARGV[1], -16, -9), sub(ARGV[1], -8)
  local old, kept, n, last = v[iWrong] or '', {}, 0, -1
  if #old % 16 ~= 0 or #old > 128 then old = '' end
  for at = 1, #old, 16 do
    local tag, when = sub(old, at, at + 7), one(sub(old, at + 8, at + 15)) or 0
    if tag == today or tag == yesterday then
      if when > last then last = when end
    elseif now - when < 86400000000 then
      n = n + 1
      kept[n] = sub(old, at, at + 15)
    end
  end
  local failed = outcome == 2 or outcome == 3
  if failed then
    n = n + 1
    kept[n] = today .. spack('<d', last > stamp and last or stamp)
  end
  if failed or 16 * n < #old then
    arithmetic().mark(KEYS[iWrong], table.concat(kept, '', n > 8 and 2 or 1, n), now + 86400000000, now)
  end
end

if prior > 0 or ARGV[2] == '' then return spack('<BdBBBBB', 0, now, 0, 1, prior, failures, 0) end
