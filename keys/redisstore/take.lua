-- Take: keys/judge.go. KEYS are the marks that the header points at and then the
-- buckets, one a tier. ARGV: 1 header, 2 rules, 3 format of the rules. The reply
-- is one string; wire.go has both layouts.

local now, deadline, cost, issued, expires, proofWait, proofIssued, proofNotBefore, proofExpires, proofUses,
  floor, shadow, proofRung, iState, iSuspect1, iSuspect2, iSuspect3, iK1, iK2, iRevoked, iPlace, iProof, iRequest, iWrong, first, extra, id =
  sunpack('<ddddddddddBBBBBBBBBBBBBBBBc16', ARGV[1])

local life, costs = 60000000, nil -- keys.RequestLifetime
if extra > 0 then -- of plan limits: another life, and a cost per tier
  costs = { sunpack('<' .. string.rep('d', extra), ARGV[1], 113) }
  life = costs[1]
  costs = extra > 1 and { unpack(costs, 2, extra) } or nil
end
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS))

local request = v[iRequest]
if request and #request > 25 and now < sunpack('<d', request, 17) then
  if sub(request, 1, 16) ~= sub(ARGV[1], -16) then return spack('<Bd', 2, now) end -- conflict
  return '\16' .. sub(request, 26) -- the first answer again
end
