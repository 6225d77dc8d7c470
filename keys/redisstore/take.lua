-- Take: keys/judge.go in one call. KEYS are the marks that the header points
-- at and then the buckets, one a tier. ARGV: 1 header, 2 rules, 3 format of the
-- rules. The reply is one string; wire.go has both layouts.

local now, deadline, cost, issued, expires, proofWait, proofIssued, proofNotBefore, proofExpires, proofUses,
  floor, shadow, proofRung, iState, iSuspect1, iSuspect2, iK1, iK2, iRevoked, iPlace, iProof, iRequest, first, id, body =
  sunpack('<ddddddddddBBBBBBBBBBBBBc16c16', ARGV[1])

if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS)) -- v[0], nil, stands for marks that do not apply

local request = v[iRequest]
if request and #request > 25 and now < sunpack('<d', request, 17) then
  if sub(request, 1, 16) ~= body then return spack('<Bd', 2, now) end -- conflict
  return '\16' .. sub(request, 26) -- the first answer again
end

local r = { sunpack(ARGV[3], ARGV[2]) }
local tiers, results, last = r[2], #r - 2 * r[3], #r - 1
local posture = facts(r, v[iState], v[iK1], v[iK2], now)

-- What is left of every limit.
local tokens = cost > 1 and cost or 1
local status = 0
local p, o = 17, results
for t = 0, tiers - 1 do
  local role, n = r[p], r[p + 1]
  if role >= 2 and role < 16 then scale(r, p, role) end
  o = settle(r, p, o, v[first + t], now)
  if cost > 1 then
    for q = p + 6, p + 11 * n - 5, 11 do
      if r[q + 2] > 0 and cost > r[q + 1] then status = 3 end -- impossible
    end
  end
  p = p + 6 + 11 * n
end

local let, taken, needed, wait, causes, device, familiar, proof = false, false, 0, 0, 0, 0, false, 0

if status == 0 then
  local revoked, place = one(v[iRevoked]) or 0, one(v[iPlace]) or 0
  familiar = place > revoked and now - place < 2592000000000

  -- The device: known 1, spent 2, invalid 3.
  if issued ~= 0 then
    device = (now >= expires or issued <= revoked) and 3 or 1
    local full = true
    p, o = 17, results
    for t = 1, tiers do
      local role, n = r[p], r[p + 1]
      if role >= 16 then
        for q = p + 6, p + 11 * n - 5, 11 do
          if device == 3 then
            r[o] = 0
          else
            local empty = r[o + 1] < r[q + 3] -- a cost of at most 1
            if empty then device = 2 end
            if role == 16 then
              full = full and r[o + 1] == r[q + 4]
              if empty and r[p + 4] == 0 then r[p + 2], r[p + 4] = 1, 1 end
            end
          end
          o = o + 2
        end
      else
        o = o + 2 * n
      end
      p = p + 6 + 11 * n
    end
    if device ~= 3 then
      p = 17
      for t = 1, tiers do
        if r[p] == 16 and r[p + 4] == 1 then
          if full then r[p + 4] = 0 else device = 2 end
        end
        p = p + 6 + 11 * r[p + 1]
      end
    end
    if device == 1 then
      p, o = 17, results
      for t = 1, tiers do
        local looked = r[p] >= 16 and 1 or 0
        for i = 1, r[p + 1] do
          r[o] = looked
          o = o + 2
        end
        p = p + 6 + 11 * r[p + 1]
      end
    end
  end

  -- The needed rung.
  if device ~= 1 then
    local below = -1 -- the most whole tokens below a threshold of delay
    p, o = 17, results
    for t = 1, tiers do
      local role, n = r[p], r[p + 1]
      if role >= 16 then
        o = o + 2 * n
      elseif familiar and role % 2 == 1 then
        for i = 1, n do
          r[o] = 0
          o = o + 2
        end
      else
        for q = p + 6, p + 11 * n - 5, 11 do
          if r[o] == 1 then
            local left, need, rung = r[o + 1], tokens * r[q + 3], 0
            local empty = left < need
            local at = r[q + 7]
            if left <= at or empty and at == -2 then
              rung = 3
            else
              at = r[q + 6]
              if left <= at or empty and at == -2 then
                rung = 2
              else
                at = r[q + 5]
                if at == -2 then at = need - 1 end
                if left <= at then
                  rung = 1
                  local whole = ((at - left) - (at - left) % r[q + 3]) / r[q + 3]
                  if whole > below then below = whole end
                end
              end
            end
            if rung > 0 then
              r[o] = 1 + 4 * rung
              if rung > needed then needed = rung end
            end
          end
          o = o + 2
        end
      end
      p = p + 6 + 11 * n
    end
    local base, max = r[4], r[5]
    if below >= 0 then
      wait = base
      while below > 0 and wait > 0 and wait < max do
        wait = wait * 2
        below = below - 1
      end
      if wait > max then wait = max end
    end
    local byPosture = familiar and 0 or r[10] % 4
    local bySuspect = 0
    if not familiar then
      local till1, till2 = one(v[iSuspect1]), one(v[iSuspect2])
      if till1 and now < till1 or till2 and now < till2 then bySuspect = 2 end
    end
    if floor > needed then needed = floor end
    if byPosture > needed then needed = byPosture end
    if bySuspect > needed then needed = bySuspect end
    if needed == 1 then
      if (floor == 1 or byPosture == 1) and base > wait then wait = base end
    else
      wait = 0
    end
    if needed > 0 then
      causes = (byPosture == needed and 1 or 0) + (bySuspect == needed and 2 or 0) + (floor == needed and 4 or 0)
    end
  end

  -- The proof: used 1, expired 2, spent 3, too early 4, insufficient 5, invalid 6.
  let = needed == 0
  local used = 0
  if iProof > 0 then
    used = two(v[iProof]) or 0
    if proofIssued <= revoked then
      proof = 6
    elseif now >= proofExpires then
      proof = 2
    elseif used >= proofUses then
      proof = 3
    elseif now < proofNotBefore then
      proof = 4
    elseif not let then
      if proofRung < needed then
        proof = 5
      elseif proofRung == 1 and proofWait < wait then
        proof = 4
      else
        proof = 1
        let = true
      end
    end
  end

  -- Taking.
  if cost > 0 and (let or shadow == 1) then
    taken = true
    p, o = 17, results
    for t = 1, tiers do
      local role, n = r[p], r[p + 1]
      if role < 16 or device == 1 then
        for q = p + 6, p + 11 * n - 5, 11 do
          if r[o] > 0 then
            local left = r[o + 1] - tokens * r[q + 3]
            if left >= 0 then
              r[o], r[o + 1], r[p + 2] = r[o] + 2, left, 1
              if left < r[q + 3] and role == 16 then r[p + 4] = 1 end
            end
          end
          o = o + 2
        end
      else
        o = o + 2 * n
      end
      p = p + 6 + 11 * n
    end
  end

  -- Writing. A bucket that is there, is not written and has no TTL gets one.
  p, o = 17, results
  for t = 0, tiers - 1 do
    local key = KEYS[first + t]
    if r[p + 2] == 1 then
      store(r, p, o, key, now)
    elseif v[first + t] and not let and call('PTTL', key) == -1 then
      local ms = life(r, p, o, now)
      if ms then call('PEXPIRE', key, sformat('%d', ms)) end
    end
    o = o + 2 * r[p + 1]
    p = p + 6 + 11 * r[p + 1]
  end
  if proof == 1 and shadow == 0 and cost > 0 then
    local till = proofExpires + 1200000000 -- keys.ProofMemory
    mark(KEYS[iProof], spack('<dd', used + 1, till), till, now)
  end
end

local reply = spack('<BddddddBBBBBBBBBBc16' .. rep('Bd', r[3]), status, now, r[1], wait, r[12], r[13], r[14],
  let and 1 or 0, taken and 1 or 0, needed, causes, posture, r[15], r[16], device, familiar and 1 or 0, proof, id,
  unpack(r, results, last))
if let and taken and iRequest > 0 then
  -- A repeat may come under other rules: it needs the limits too.
  local full, x = {}, 0
  p = 17
  for t = 1, tiers do
    for q = p + 6, p + 11 * r[p + 1] - 5, 11 do
      local count = r[q + 2]
      full[x + 1], full[x + 2], full[x + 3] = r[q + 1], count < 0 and -count or count, r[q + 3]
      x = x + 3
    end
    p = p + 6 + 11 * r[p + 1]
  end
  mark(KEYS[iRequest], body .. spack('<d', now + 60000000) .. reply .. spack('<' .. rep('d', x), unpack(full)),
    now + 60000000, now)
end
return reply
